package main

import "testing"

func TestSizeOf(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 5 << 40: "5.0 TiB"} {
		if got := sizeOf(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

package main

import "testing"

func TestParseSize(t *testing.T) {
	for _, tc := range []struct {
		text  string
		want  int64
		fails bool
	}{
		{text: "33554432", want: 32 << 20},
		{text: "32MiB", want: 32 << 20},
		{text: "32 mib", want: 32 << 20},
		{text: "32M", want: 32 << 20},
		{text: "64KB", want: 64 << 10},
		{text: "2GiB", want: 2 << 30},
		{text: "0", want: 0},
		{text: "12b", want: 12},
		{text: "", fails: true},
		{text: "MiB", fails: true},
		{text: "-1MiB", fails: true},
		{text: "1.5GiB", fails: true},
		{text: "32MiB/s", fails: true},
		{text: "1PiB", fails: true},
		{text: "9223372036854775807", want: 1<<63 - 1},
		{text: "9223372036854775808", fails: true},
		{text: "9223372036854775807k", fails: true},
	} {
		t.Run(tc.text, func(t *testing.T) {
			got, err := parseSize(tc.text)
			if (err != nil) != tc.fails || got != tc.want {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestSizeOf(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 5 << 40: "5.0 TiB"} {
		if got := sizeOf(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

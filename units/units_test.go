package units

import (
	"testing"
	"testing/quick"
	"time"
)

func TestParseBytes(t *testing.T) {
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
			got, err := ParseBytes(tc.text)
			if (err != nil) != tc.fails || got != tc.want {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1KiB", 1536: "1536", 32 << 20: "32MiB", 3 << 30: "3GiB", 5 << 40: "5120GiB", 33554433: "33554433",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 30 * time.Second: "30s", 90 * time.Second: "1m30s", 2 * time.Hour: "2h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m",
		2*time.Hour + 5*time.Second: "2h0m5s", 1500 * time.Millisecond: "1.5s", -time.Minute: "-1m", 50 * time.Millisecond: "50ms",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d: got %q, want %q", d, got, want)
		}
	}
}

// What is written means the same when it is read.
func TestWrittenIsRead(t *testing.T) {
	sizes := func(n uint32, shift uint8) bool {
		size := int64(n) << (shift % 31)
		got, err := ParseBytes(Bytes(size))
		return err == nil && got == size
	}
	durations := func(n int32, unit uint8) bool {
		d := time.Duration(n) * []time.Duration{1, time.Millisecond, time.Second, time.Minute}[unit%4]
		got, err := time.ParseDuration(Duration(d))
		return err == nil && got == d
	}
	for _, property := range []any{sizes, durations} {
		if err := quick.Check(property, nil); err != nil {
			t.Error(err)
		}
	}
}

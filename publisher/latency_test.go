package publisher

import (
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// TestCreatedAt covers when an event counts as created.
func TestCreatedAt(t *testing.T) {
	tx := transaction{commit: 1, end: 2, at: time.Date(2026, 2, 28, 12, 0, 1, 0, time.UTC)}
	tests := []struct {
		name string
		oid  uint32
		text any
		want time.Time
	}{
		{"a time with its zone", timestamptz, "2026-02-28 12:00:00.5+00", tx.at.Add(-time.Second / 2)},
		{"a time without a zone may be any", 1114, "2026-02-28 12:00:00.5", tx.at},
		{"no time", timestamptz, nil, tx.at},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := decoder.New([]decoder.Table{{Schema: "public", Name: "outbox_events"}})
			chunk := decoder.NewPool().Get()
			for _, message := range [][]byte{relationMessage(column{"created_at", test.oid}), beginMessage(tx), insertMessage(order("1", "a"), test.text)} {
				if err := d.Decode(message, chunk); err != nil {
					t.Fatal(err)
				}
			}
			r := record{row: chunk.Entries[0].Row, position: chunk.Entries[0].Position}
			if got := createdAt(&r); got != test.want.UnixMicro() {
				t.Errorf("got %s, want %s", time.UnixMicro(got).UTC(), test.want)
			}
		})
	}
}

func TestParseTimestamp(t *testing.T) {
	at := func(micros int) int64 { return time.Date(2026, 2, 28, 23, 59, 58, micros*1000, time.UTC).UnixMicro() }
	tests := []struct {
		text string
		want int64 // 0 is none
	}{
		{"2026-02-28 23:59:58+00", at(0)},
		{"2026-02-28 23:59:58.1+00", at(100_000)},
		{"2026-02-28 23:59:58.000001+00", at(1)},
		{"2026-02-28 23:59:58.123456+00", at(123_456)},
		{text: ""},
		{text: "infinity"},
		{text: "2026-02-28 23:59:58"},
		{text: "2026-02-28 23:59:58.123456"},
		{text: "2026-02-28 23:59:58+02"},
		{text: "2026-02-28 23:59:58.+00"},
		{text: "2026-02-28 23:59:58.1234567+00"},
		{text: "2026-02-28T23:59:58+00"},
		{text: "10000-02-28 23:59:58+00"},
		{text: "0044-03-15 12:00:00+00 BC"},
		{text: "28/02/2026 23:59:58+00"},
		{text: "2026-02-28 23:59:5x+00"},
	}
	for _, test := range tests {
		got, ok := parseTimestamp([]byte(test.text))
		if ok != (test.want != 0) || got != test.want {
			t.Errorf("%q: got %d (%t), want %d", test.text, got, ok, test.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { parseTimestamp([]byte("2026-02-28 23:59:58.123456+00")) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// FuzzParseTimestamp compares with the library wherever a time is read.
func FuzzParseTimestamp(f *testing.F) {
	f.Add("2026-02-28 23:59:58.123456+00")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseTimestamp([]byte(text))
		want, err := time.Parse("2006-01-02 15:04:05.999999-07", text)
		if err == nil && ok && got != want.UnixMicro() {
			t.Errorf("%q: got %d, want %d", text, got, want.UnixMicro())
		}
	})
}

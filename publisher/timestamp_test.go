package publisher

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

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
		{"a time with its zone", pgtype.TimestamptzOID, "2026-02-28 12:00:00.5+00", tx.at.Add(-time.Second / 2)},
		{"a time without a zone may be any", 1114, "2026-02-28 12:00:00.5", tx.at},
		{"no time", pgtype.TimestamptzOID, nil, tx.at},
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

// Behaviours: C2
func TestTimestamps(t *testing.T) {
	committed := time.Date(2026, 2, 28, 12, 0, 1, 500_000_000, time.UTC)
	at := func(s string) time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, tt := range []struct {
		how         Timestamp
		createdType uint32
		created     any
		want        time.Time
	}{
		{TimestampCommit, 1184, "2026-02-28 12:00:00.5+00", committed},
		{TimestampPublish, 1184, "2026-02-28 12:00:00.5+00", sentAt},
		{TimestampCreatedAt, 1184, "2026-02-28 12:00:00.5+00", at("2026-02-28T12:00:00.5Z")},
		{TimestampCreatedAt, 1184, "1970-01-01 00:00:00+00", at("1970-01-01T00:00:00Z")},
		{TimestampCreatedAt, 1184, "9999-12-31 23:59:59.999+00", at("9999-12-31T23:59:59.999Z")},
		{TimestampCreatedAt, 1184, "1969-12-31 23:59:59.999+00", committed},
		{TimestampCreatedAt, 1184, "10000-01-01 00:00:00+00", committed},
		{TimestampCreatedAt, 1184, "0044-03-15 12:00:00+00 BC", committed},
		{TimestampCreatedAt, 1184, "infinity", committed},
		{TimestampCreatedAt, 1184, "-infinity", committed},
		{TimestampCreatedAt, 1184, nil, committed},
		{TimestampCreatedAt, 1114, "2026-02-28 12:00:00.25", at("2026-02-28T12:00:00.25Z")},
		{TimestampCreatedAt, 1114, "infinity", committed},
		{TimestampCreatedAt, 1082, "2026-02-28", at("2026-02-28T00:00:00Z")},
		{TimestampCreatedAt, 1082, "infinity", committed},
		{TimestampCreatedAt, 1082, "10000-01-01", committed},
		{TimestampCreatedAt, 20, "1772280000500", at("2026-02-28T12:00:00.5Z")},
		{TimestampCreatedAt, 20, "0", at("1970-01-01T00:00:00Z")},
		{TimestampCreatedAt, 20, "-1", committed},
		{TimestampCreatedAt, 20, "9223372036854775807", committed},
		{TimestampCreatedAt, 25, "2026-02-28 12:00:00+00", committed},
	} {
		cfg := testConfig(nil)
		cfg.Timestamp = tt.how
		got, why := sendAs(t, cfg, formed{createdType: tt.createdType, created: tt.created}.record(t))
		if why != nil || !got.timestamp.Equal(tt.want) {
			t.Errorf("%s of type %d, %v: got %s (%v), want %s", tt.how, tt.createdType, tt.created, got.timestamp, why, tt.want)
		}
	}
}

// A batch has the same timestamps in each attempt, and so have its halves.
func TestTimestampsStay(t *testing.T) {
	var m memory
	b := &batch{stamp: stamp{TimestampPublish, sentAt.UnixMicro()}}
	b.add(formed{}.record(t), &m)
	b.add(formed{}.record(t), &m)
	left, right := b.split()
	for _, part := range []*batch{left, right} {
		if !part.newestTimestamp().Equal(sentAt) {
			t.Errorf("half a batch: got %s, want %s", part.newestTimestamp(), sentAt)
		}
	}
	created := &batch{stamp: stamp{how: TimestampCreatedAt}}
	created.add(formed{created: "2040-01-01 00:00:00+00"}.record(t), &m)
	created.add(formed{created: "2030-01-01 00:00:00+00"}.record(t), &m)
	if want := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC); !created.newestTimestamp().Equal(want) {
		t.Errorf("created at: got %s, want %s, by which brokers remember a producer", created.newestTimestamp(), want)
	}
}

package decoder

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

// The files in testdata hold what a real server sent. Their comments have the
// SQL and how the bytes were read.

func TestGoldenOutbox(t *testing.T) {
	first := goldenTime(t, "2026-11-30T17:11:01.662499Z")
	second := goldenTime(t, "2026-11-30T17:11:01.664113Z")
	third := goldenTime(t, "2026-11-30T17:11:01.681472Z")
	row := func(commitLSN pglogrepl.LSN, index uint32, committed time.Time, values ...any) entry {
		return goldenEvent(outbox, "public.outbox_events",
			Position{CommitLSN: commitLSN, Index: index, CommitTime: committed.UnixMicro()},
			[]string{
				"id", "aggregate_type", "aggregate_id", "event_type", "payload",
				"metadata", "version", "sequence", "raw", "created_at",
			}, values)
	}
	want := []entry{
		row(0x19296f8, 0, first, "0190a6f0-0000-7000-8000-000000000001", "order", "o-1", "OrderPlaced",
			`{"items": [1, 2], "total": 12.50}`, `{"traceparent":  "00-01"}`,
			"-2147483648", "9223372036854775807", `\x00ff10`, "2026-01-02 03:04:05.678901+00"),
		row(0x19296f8, 1, first, "0190a6f0-0000-7000-8000-000000000003", "", "", "",
			`""`, `""`, "0", "0", `\x`, "infinity"),
		row(0x19296f8, 2, first, "0190a6f0-0000-7000-8000-000000000004", "naïve", "注文-1", "🚚",
			`{"ort": "Zürich"}`, `{"k":"é"}`, nil, nil, nil, nil),
		marker(0x1929730, first),
		row(0x1929928, 0, second, "0190a6f0-0000-7000-8000-000000000005", "order", nil, "OrderErased",
			nil, nil, nil, nil, nil, nil),
		row(0x1929928, 2, second, "0190a6f0-0000-7000-8000-000000000006", "order", nil, "OrderErased",
			nil, nil, nil, nil, nil, nil),
		marker(0x1929958, second),
		row(0x192cd40, 0, third, "0190a6f0-0000-7000-8000-000000000007", "order", "o-7", "OrderImported",
			`"`+strings.Repeat("x", 1<<20)+`"`, nil, nil, nil, nil, nil),
		marker(0x192cd70, third),
	}
	c := NewPool().Get()
	decodeAll(t, New([]Table{outbox}), c, goldenMessages(t, "outbox.txt")...)
	compareEntries(t, entriesOf(c), want)

	wantColumns := []Column{
		{"id", 2950}, {"aggregate_type", 1043}, {"aggregate_id", 25}, {"event_type", 1043}, {"payload", 3802},
		{"metadata", 114}, {"version", 23}, {"sequence", 20}, {"raw", 17}, {"created_at", 1184},
	}
	if got := c.Entries[0].Row.Relation().Columns; !reflect.DeepEqual(got, wantColumns) {
		t.Errorf("columns: got %v, want %v", got, wantColumns)
	}
}

func TestGoldenChanges(t *testing.T) {
	known := outbox
	known.OID = 16407
	events := Table{Schema: "public", Name: "events"}

	first := goldenTime(t, "2026-11-30T17:11:01.864922Z")
	second := goldenTime(t, "2026-11-30T17:11:01.866400Z")
	third := goldenTime(t, "2026-11-30T17:11:01.866728Z")
	fourth := goldenTime(t, "2026-11-30T17:11:01.869006Z")
	origin := goldenTime(t, "2026-01-02T03:04:05Z")
	at := func(commitLSN pglogrepl.LSN, index uint32, committed time.Time) Position {
		return Position{CommitLSN: commitLSN, Index: index, CommitTime: committed.UnixMicro()}
	}
	names := func(more ...string) []string {
		return append([]string{"id", "aggregate_type", "aggregate_id", "event_type"}, more...)
	}
	year := []string{"event_id", "aggregate_type", "aggregate_id", "event_type", "payload", "year"}
	want := []entry{
		goldenEvent(known, "public.outbox_events", at(0x1d60d60, 0, first), names("payload", "state"),
			[]any{"1", "order", "o-1", "OrderPlaced", "one", "new"}),
		goldenEvent(known, "public.outbox_events", at(0x1d60d60, 1, first), names("payload", "metadata"),
			[]any{"2", "order", "o-1", "OrderPaid", "two", `{"tenant": "a"}`}),
		goldenEvent(known, "public.outbox_events", at(0x1d60d60, 2, first), names("metadata", "payload"),
			[]any{"3", "order", "o-1", "OrderShipped", nil, "three"}),
		goldenEvent(known, "public.outbox_archive", at(0x1d60d60, 3, first), names("metadata", "payload"),
			[]any{"4", "order", "o-1", "OrderClosed", nil, "four"}),
		marker(0x1d60fa8, first),
		goldenEvent(known, "public.outbox_events", at(0x1d64d70, 0, second),
			[]string{"event_id", "id", "aggregate_type", "aggregate_id", "event_type", "payload"},
			[]any{"0190a6f0-0000-7000-8000-000000000005", "5", "order", "o-2", "OrderPlaced", "{ }"}),
		marker(0x1d65278, second),
		goldenEvent(events, "public.events", at(0x1d652d0, 0, third), year,
			[]any{"e-6", "order", "o-3", "OrderPlaced", `\x06`, "2026"}),
		marker(0x1d65300, third),
		// In front of it stand the row of the other table and the message; the
		// updates, the deletion and the truncation do not count.
		goldenEvent(events, "public.events", at(0x1d66178, 2, fourth), year,
			[]any{"e-7", "order", "o-3", "OrderPaid", `\x07`, "2026"}),
		marker(0x1d662e8, fourth),
		goldenEvent(events, "public.events", at(0x1d665f0, 0, origin), year,
			[]any{"e-8", "order", "o-3", "OrderShipped", `\x08`, "2026"}),
		marker(0x1d66638, origin),
	}
	c := NewPool().Get()
	decodeAll(t, New([]Table{known, events}), c, goldenMessages(t, "changes.txt")...)
	compareEntries(t, entriesOf(c), want)

	var ids, payloads []string
	for _, e := range c.Entries {
		if e.Row.Relation() != nil {
			ids = append(ids, string(e.Row.Field(FieldID)))
			payloads = append(payloads, string(e.Row.Field(FieldPayload)))
		}
	}
	if got, want := strings.Join(ids, " "), "1 2 3 4 0190a6f0-0000-7000-8000-000000000005 e-6 e-7 e-8"; got != want {
		t.Errorf("ids: got %s, want %s", got, want)
	}
	if got, want := strings.Join(payloads, ","), `one,two,three,four,{ },\x06,\x07,\x08`; got != want {
		t.Errorf("payloads: got %s, want %s", got, want)
	}
}

func goldenEvent(table Table, relation string, p Position, names []string, values []any) entry {
	e := entry{Position: p, Table: table, Relation: relation}
	for i, value := range values {
		if value == nil {
			e.Columns = append(e.Columns, null(names[i]))
		} else {
			e.Columns = append(e.Columns, col(names[i], value.(string)))
		}
	}
	return e
}

func goldenTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// goldenMessages reads the messages of a file in testdata.
func goldenMessages(t testing.TB, name string) [][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var messages [][]byte
	for number, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		msg := []byte{line[0]}
		for _, word := range strings.Fields(line[1:]) {
			digits, count, repeated := strings.Cut(word, "*")
			b, err := hex.DecodeString(digits)
			if repeated && err == nil {
				var n int
				n, err = strconv.Atoi(count)
				b = bytes.Repeat(b, n)
			}
			if err != nil {
				t.Fatalf("%s, line %d: %v", name, number+1, err)
			}
			msg = append(msg, b...)
		}
		messages = append(messages, msg)
	}
	return messages
}

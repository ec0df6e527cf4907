package decoder

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

// The functions below write messages as the server does. PostgreSQL manual,
// "Logical Replication Message Formats".

func beginMessage(commitLSN pglogrepl.LSN, commitTime time.Time) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'B'}, uint64(commitLSN))
	b = binary.BigEndian.AppendUint64(b, uint64(commitTime.UnixMicro()-postgresEpoch))
	return binary.BigEndian.AppendUint32(b, 4711)
}

func commitMessage(commitLSN, endLSN pglogrepl.LSN) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, uint64(commitLSN))
	b = binary.BigEndian.AppendUint64(b, uint64(endLSN))
	return binary.BigEndian.AppendUint64(b, 0)
}

const textOID = 25

// relationMessage writes a relation whose columns are all of type text.
func relationMessage(oid uint32, schema, name string, columns ...string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'R'}, oid)
	b = append(append(b, schema...), 0)
	b = append(append(b, name...), 0, 'd')
	b = binary.BigEndian.AppendUint16(b, uint16(len(columns)))
	for _, column := range columns {
		b = append(append(append(b, 0), column...), 0)
		b = binary.BigEndian.AppendUint32(b, textOID)
		b = binary.BigEndian.AppendUint32(b, 0xffffffff)
	}
	return b
}

// insertMessage writes a row. A value is a string, nil for NULL, or bytes that
// are written as they are, tag and length included.
func insertMessage(oid uint32, values ...any) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'I'}, oid)
	b = binary.BigEndian.AppendUint16(append(b, 'N'), uint16(len(values)))
	for _, value := range values {
		switch v := value.(type) {
		case nil:
			b = append(b, 'n')
		case string:
			b = binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(v)))
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("value of type %T", value))
		}
	}
	return b
}

func logicalMessage(transactional bool, content string) []byte {
	b := []byte{'M', 0}
	if transactional {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, 0x100)
	b = append(append(b, "prefix"...), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(content)))
	return append(b, content...)
}

// The table that most tests use, with its columns and a row.

const outboxOID = 16385

var outbox = Table{Schema: "public", Name: "outbox_events"}

func outboxRelation() []byte {
	return relationMessage(outboxOID, "public", "outbox_events",
		"id", "aggregate_type", "aggregate_id", "event_type", "payload")
}

func outboxInsert(id string) []byte {
	return insertMessage(outboxOID, id, "order", "o-1", "OrderPlaced", "{}")
}

func commitTimeOf(lsn pglogrepl.LSN) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, int(lsn)*1000, time.UTC)
}

func positionOf(lsn pglogrepl.LSN, index uint32) Position {
	return Position{CommitLSN: lsn, Index: index, CommitTime: commitTimeOf(lsn).UnixMicro()}
}

// entry is an Entry in a form that shows and compares its row by value.
type entry struct {
	Position   Position
	Table      Table
	Relation   string // as the server calls it
	Columns    []column
	Marker     pglogrepl.LSN
	CommitTime string
}

type column struct {
	Name, Value string
	Null        bool
}

func (c column) String() string {
	if c.Null {
		return c.Name + " is NULL"
	}
	return fmt.Sprintf("%s = %.100q", c.Name, c.Value)
}

func col(name, value string) column { return column{Name: name, Value: value} }

func null(name string) column { return column{Name: name, Null: true} }

// outboxEvent is what outboxInsert yields.
func outboxEvent(p Position, id string) entry {
	return entry{
		Position: p,
		Table:    outbox,
		Relation: "public.outbox_events",
		Columns: []column{
			col("id", id), col("aggregate_type", "order"), col("aggregate_id", "o-1"),
			col("event_type", "OrderPlaced"), col("payload", "{}"),
		},
	}
}

// marker is a marker behind a transaction with an event, if committed is set.
func marker(lsn pglogrepl.LSN, committed time.Time) entry {
	e := entry{Marker: lsn}
	if !committed.IsZero() {
		e.CommitTime = committed.UTC().Format(time.RFC3339Nano)
	}
	return e
}

func keepaliveMarker(lsn pglogrepl.LSN) entry { return marker(lsn, time.Time{}) }

// entriesOf returns what c holds.
func entriesOf(c *Chunk) []entry {
	var entries []entry
	for _, e := range c.Entries {
		got := marker(e.Marker, e.CommitTime)
		got.Position = e.Position
		if rel := e.Row.Relation(); rel != nil {
			got.Table = rel.Table
			got.Relation = rel.Schema + "." + rel.Name
			got.Columns = columnsOf(e.Row)
		}
		entries = append(entries, got)
	}
	return entries
}

func columnsOf(row Row) []column {
	var columns []column
	row.Columns(func(c Column, value []byte) bool {
		columns = append(columns, column{Name: c.Name, Value: string(value), Null: value == nil})
		return true
	})
	return columns
}

// decodeAll decodes messages that are all well-formed.
func decodeAll(t *testing.T, d *Decoder, c *Chunk, messages ...[]byte) {
	t.Helper()
	for i, msg := range messages {
		if err := d.Decode(msg, c); err != nil {
			t.Fatalf("message %d, %q: %v", i, msg, err)
		}
	}
}

func compareEntries(t *testing.T, got, want []entry) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("entry %d: got none, want %+v", i, want[i])
		case i >= len(want):
			t.Errorf("entry %d: got %+v, want none", i, got[i])
		case !reflect.DeepEqual(got[i], want[i]):
			t.Errorf("entry %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

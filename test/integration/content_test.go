//go:build linux || darwin

package integration

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// tableWith is an outbox table with a payload of another type, and an aggregate
// type that may be NULL.
func tableWith(payloadType string) string {
	return fmt.Sprintf(`CREATE TABLE public.outbox_events (
		id uuid PRIMARY KEY, aggregate_type text, aggregate_id text NOT NULL, event_type text NOT NULL, payload %s)`, payloadType)
}

// TestContentIsUntouched publishes payloads of every type that a column may
// have. The oracle compares each value with the bytes in the table.
//
// Behaviours: C1
func TestContentIsUntouched(t *testing.T) {
	documents := []any{
		`{"price": 1.10, "nothing": null, "big": 123456789012345678901234567890, "small": 1e-30, "text": "ä\u0001\"\\😀", "nested": [[], {}]}`,
		`[1, 2]`, `"s"`, `1`, `1.10`, `-0`, `null`, `true`, `{}`, `""`, `{"long": "` + strings.Repeat("abc", 300_000) + `"}`,
	}
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	for _, c := range []struct {
		payloadType, contentType string
		payloads                 []any
	}{
		{"jsonb", "application/json", documents},
		{"json", "application/json", append(documents, ` { "b" : 1.10 ,`+"\n\t"+`"a":1,"a":2 } `)},
		{"text", "text/plain; charset=utf-8", []any{"", " ", "null", "plain", "tab\tnewline\nquote\"backslash\\ \\x00", "日本語", strings.Repeat("x", 1_000_000)}},
		{"varchar", "text/plain; charset=utf-8", []any{"", "{}", "\\N"}},
		{"bytea", "application/octet-stream", []any{[]byte{}, []byte{0}, everyByte, []byte(`\x00`), bytes.Repeat([]byte{0xff}, 400_000)}},
	} {
		t.Run(c.payloadType, func(t *testing.T) {
			o := newOutbox(t, outboxConfig{sql: tableWith(c.payloadType), partitions: 2, topicSettings: map[string]string{"max.message.bytes": "4000000"}})
			r := o.start()
			for _, payload := range c.payloads {
				o.insertOne(func(r *row) { r.payload = payload })
			}
			o.awaitDrained()
			r.stop()
			for _, record := range o.records() {
				if got, _ := record.Header("content-type"); got != c.contentType {
					t.Errorf("the content type is %q, want %q", got, c.contentType)
				}
				if record.Value == nil {
					t.Errorf("%s has become a tombstone", record.Key)
				}
			}
			o.verify()
		})
	}
}

// TestContentOfARecord looks at everything else that a record has.
//
// Behaviours: K6
func TestContentOfARecord(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insertOne(func(r *row) { r.aggregateID = "Zürich" })
	o.awaitDrained()
	r.stop()
	record := o.records()[0]
	position, err := decoder.ParsePosition(header(t, record, "position"))
	if err != nil {
		t.Fatal(err)
	}
	committed := time.UnixMicro(position.CommitTime)
	if age := time.Since(committed); age < 0 || age > time.Minute {
		t.Errorf("the position says that the event was committed %s ago", age)
	}
	if want := committed.UnixMilli(); record.Timestamp.UnixMilli() != want {
		t.Errorf("the timestamp is %d, want %d: the time of the commit", record.Timestamp.UnixMilli(), want)
	}
	if got := string(record.Key); got != idOf(1) {
		t.Errorf("the key is %q, want %q: the event's id", got, idOf(1))
	}
	for name, want := range map[string]string{
		"event_id": idOf(1), "event_type": "created", "aggregate_type": "order", "aggregate_id": "Zürich", "content-type": "application/json",
	} {
		if got := header(t, record, name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	if origin := header(t, record, "origin"); len(origin) != 16 {
		t.Errorf("the origin is %q, want a short hash", origin)
	}
	o.verify()
}

func header(t testing.TB, r harness.Record, name string) string {
	t.Helper()
	value, found := r.Header(name)
	if !found {
		t.Errorf("the record has no header %s", name)
	}
	return value
}

// TestContentWithoutATopic commits events from whose aggregate type no topic
// can be made: each is set aside with a reason of its own, and the others go
// on. Names keep their case.
//
// Behaviours: C3, C4
func TestContentWithoutATopic(t *testing.T) {
	o := newOutbox(t, outboxConfig{types: []string{"order", "CamelCase.Order_1-x"}, sql: tableWith("jsonb")})
	r := o.start()
	var setAside []string
	want := make(map[string]string) // the reason of each
	for aggregateType, reason := range map[any]string{
		nil: "null_aggregate_type", "a/b": "invalid_topic", "größe": "invalid_topic", "a b": "invalid_topic", strings.Repeat("x", 250): "invalid_topic",
	} {
		id := idOf(o.insertTyped(aggregateType))
		setAside = append(setAside, id)
		want[id] = reason
		o.insertTyped("order")
		o.insertTyped("CamelCase.Order_1-x")
	}
	o.awaitDrained()
	r.stop()
	for id, reason := range want {
		got := value[string](o, "SELECT reason FROM outbox_dead_letters WHERE event_id = $1", id)
		if got != reason {
			t.Errorf("%s was set aside for %q, want %q", id, got, reason)
		}
	}
	topics := make(map[string]int)
	for _, record := range o.records() {
		topics[record.Topic]++
	}
	if topics[o.topic("CamelCase.Order_1-x")] != len(want) {
		t.Errorf("records by topic: %v", topics)
	}
	slices.Sort(setAside)
	o.verifyExcept(exceptions{setAside: setAside})
}

// insertTyped commits a row of an aggregate type, nil for NULL, and returns its
// number.
func (o *outbox) insertTyped(aggregateType any) int64 {
	o.t.Helper()
	number := o.ledger.take(1)
	o.exec("INSERT INTO "+o.table+" (id, aggregate_type, aggregate_id, event_type, payload) VALUES ($1, $2, 'a', 'created', '{}')",
		idOf(number), aggregateType)
	o.ledger.note(committed, number)
	return number
}

// TestContentIsWhatWasInserted updates and deletes rows, also in the
// transaction that has inserted them: exactly the inserts are published, and
// the log has nothing to say about it.
//
// Behaviours: C6
func TestContentIsWhatWasInserted(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insert(10)
	o.exec("UPDATE outbox_events SET event_type = 'updated', payload = '{}'")
	o.exec("UPDATE outbox_events SET id = gen_random_uuid()")
	o.exec("DELETE FROM outbox_events")
	tx := o.begin()
	tx.insert(5)
	tx.exec("UPDATE outbox_events SET event_type = 'updated'")
	tx.exec("DELETE FROM outbox_events")
	tx.insert(5)
	tx.commit()
	o.exec("UPDATE outbox_events SET event_type = 'updated'")
	o.awaitDrained()
	r.stop()
	for _, record := range o.records() {
		if kind := header(t, record, "event_type"); kind != "created" {
			t.Errorf("%s has the event type %q, want that of the insert", record.Key, kind)
		}
	}
	r.expectQuiet()
	o.verify()
}

// TestContentOfNullIsATombstone publishes a NULL payload as a tombstone, which
// the JSON value null is not.
//
// Behaviours: C7
func TestContentOfNullIsATombstone(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	null := o.insertOne(func(r *row) { r.payload = nil })
	jsonNull := o.insertOne(func(r *row) { r.payload = "null" })
	o.awaitDrained()
	r.stop()
	for _, record := range o.records() {
		switch numberOf(header(t, record, "event_id")) {
		case null:
			if record.Value != nil {
				t.Errorf("NULL has become %q", record.Value)
			}
			if kind, found := record.Header("content-type"); found {
				t.Errorf("a tombstone has the content type %q", kind)
			}
		case jsonNull:
			if string(record.Value) != "null" {
				t.Errorf("the JSON value null has become %q", record.Value)
			}
		}
	}
	r.expectQuiet()
	o.verify()
}

// expectQuiet checks that the relay has warned of nothing, but for a
// coordinator that was not there yet.
func (r *relay) expectQuiet() {
	r.o.t.Helper()
	for _, line := range r.log("") {
		if level := line.text("level"); level != "INFO" && line.text("msg") != "partition cannot be acquired yet" {
			r.o.t.Errorf("the log says: %v", line)
		}
	}
}

// TestContentIsCompressed drains a backlog with each codec. Batches that are
// small go out as they are.
//
// Behaviours: C1
func TestContentIsCompressed(t *testing.T) {
	o := newOutbox(t, outboxConfig{partitions: 1})
	codecs := []string{"none", "gzip", "snappy", "lz4", "zstd"} // by their number in a batch
	const backlog = 300
	for _, codec := range codecs {
		tx := o.begin()
		tx.bulk(backlog, 320)
		tx.commit()
		r := o.start("--compression", codec)
		o.awaitDrained()
		r.stop()
	}
	used := make([]map[int]int, len(codecs)) // by codec, of the events of each round
	for _, record := range o.records() {
		round := (numberOf(header(t, record, "event_id")) - 1) / backlog
		if used[round] == nil {
			used[round] = make(map[int]int)
		}
		used[round][int(record.Attrs.CompressionType())]++
	}
	for codec, name := range codecs {
		if n := used[codec][codec]; n < backlog/2 || n+used[codec][0] < backlog {
			t.Errorf("with %s, the events were compressed with %v", name, used[codec])
		}
	}
	o.verify()
}

//go:build linux || darwin

package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// recordOf is a record of the event with an id.
func recordOf(id string, change func(*kgo.Record)) harness.Record {
	r := &kgo.Record{
		Topic: "outbox.event.order", Partition: 2, Key: []byte("4711"), Value: []byte(`{"total": 12.50}`), Timestamp: time.UnixMilli(1767323045678),
		Headers: []kgo.RecordHeader{{Key: idHeader, Value: []byte(id)}, {Key: "eventType", Value: []byte("OrderPlaced")}},
	}
	if change != nil {
		change(r)
	}
	return harness.Record{Record: r}
}

func TestCompare(t *testing.T) {
	same := recordOf("1", nil)
	// changed is a side whose only record is another one in one respect.
	changed := func(change func(*kgo.Record)) side {
		return side{records: []harness.Record{recordOf("1", change)}}
	}
	one := side{records: []harness.Record{same}}
	for _, c := range []struct {
		name        string
		there, here side
		timed       bool
		want        parts
	}{
		{name: "the same", there: one, here: one},
		{name: "nothing on both sides"},
		{name: "another topic", there: one, here: changed(func(r *kgo.Record) { r.Topic = "outbox.event.Order" }), want: parts{inTopic}},
		{name: "another partition", there: one, here: changed(func(r *kgo.Record) { r.Partition = 3 }), want: parts{inPartition}},
		{name: "another key", there: one, here: changed(func(r *kgo.Record) { r.Key = []byte("4712") }), want: parts{inKey}},
		{name: "no key instead of an empty one", there: changed(func(r *kgo.Record) { r.Key = nil }), here: changed(func(r *kgo.Record) { r.Key = []byte{} }), want: parts{inKey}},
		{name: "an empty value instead of a tombstone", there: changed(func(r *kgo.Record) { r.Value = nil }), here: changed(func(r *kgo.Record) { r.Value = []byte{} }), want: parts{inValue}},
		{name: "a blank less", there: one, here: changed(func(r *kgo.Record) { r.Value = []byte(`{"total":12.50}`) }), want: parts{inValue}},
		{name: "a header less", there: one, here: changed(func(r *kgo.Record) { r.Headers = r.Headers[:1] }), want: parts{inHeaders}},
		{name: "a header twice", there: one, here: changed(func(r *kgo.Record) { r.Headers = append(r.Headers, r.Headers[1]) }), want: parts{inHeaders}},
		{name: "headers in another order", there: one, here: changed(func(r *kgo.Record) { r.Headers[0], r.Headers[1] = r.Headers[1], r.Headers[0] }), want: parts{inHeaders}},
		{name: "a header without a value", there: one, here: changed(func(r *kgo.Record) { r.Headers[1].Value = nil }), want: parts{inHeaders}},
		{name: "another time that does not count", there: one, here: changed(func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Second) })},
		{name: "another time that counts", there: one, here: changed(func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Millisecond) }), timed: true, want: parts{inTimestamp}},
		{name: "missing here", there: one, want: parts{inNumber}},
		{name: "missing there", here: one, want: parts{inNumber}},
		{name: "twice here", there: one, here: side{records: []harness.Record{same, same}}, want: parts{inNumber}},
		{name: "twice on both sides", there: side{records: []harness.Record{same, same}}, here: side{records: []harness.Record{same, same}}, want: parts{inNumber}},
		{
			name: "in another order", want: parts{inOrder},
			there: side{records: []harness.Record{same, recordOf("2", nil)}}, here: side{records: []harness.Record{recordOf("2", nil), same}},
		},
		{name: "missing there, since it has ended", there: side{failed: "an exception"}, here: one, want: parts{debeziumStops}},
		{name: "ended there, and missing here", there: side{records: one.records, failed: "an exception"}, want: parts{inNumber, debeziumStops}},
		{name: "set aside here", there: one, here: side{setAside: []string{"1"}}, want: parts{relaySetsAside}},
		{name: "another one set aside", there: one, here: side{setAside: []string{"2"}}, want: parts{inNumber, relaySetsAside}},
		{name: "refused here", there: one, here: side{failed: "a message"}, want: parts{relayRefuses}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := compare(c.there, c.here, c.timed)
			if !reflect.DeepEqual(got.differs, c.want) {
				t.Errorf("they differ in %s, want %s: %v", got.differs, c.want, got.details)
			}
			if identical := got.pairs == 1 && len(c.want) == 0; identical != (got.identical == 1) {
				t.Errorf("%d of %d pairs are identical", got.identical, got.pairs)
			}
		})
	}
}

func TestParts(t *testing.T) {
	for _, want := range []parts{nil, {inValue}, {inHeaders, debeziumStops, relaySetsAside}} {
		if got, err := parseParts(want.String()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s has become %s (%v)", want, got, err)
		}
	}
	if got, err := parseParts("value, colour"); err == nil {
		t.Errorf("a part that does not exist has become %s", got)
	}
}

func TestRootCause(t *testing.T) {
	const trace = `org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler
	at org.apache.kafka.connect.runtime.WorkerTask.run(WorkerTask.java:1)
Caused by: java.lang.NullPointerException: no topic
	at io.debezium.transforms.outbox.EventRouter.apply(EventRouter.java:1)
	... 12 more
`
	for trace, want := range map[string]string{
		trace: "java.lang.NullPointerException: no topic", "java.lang.Error: alone\n\tat somewhere": "java.lang.Error: alone", "": "",
	} {
		if got := rootCause(trace); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

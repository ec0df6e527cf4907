//go:build linux || darwin

package integration

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaCopyNeverBecomesALoss has somebody write a copy of one of our records,
// headers and all, to the end of a topic that lacks events in front of it: a
// relay that took the copy for its own would skip them. Behind a crash none of
// them is lost, and none of the others is written twice.
func TestKafkaCopyNeverBecomesALoss(t *testing.T) {
	k := proxiedKafka(t, 3)
	o := newOutbox(t, outboxConfig{kafka: k, types: []string{"lacking", "copied"}, partitions: 1, replication: 1})
	for topic, broker := range map[string]int{"lacking": 1, "copied": 2} {
		if err := k.MoveLeader(t.Context(), o.topic(topic), 0, broker); err != nil {
			t.Fatal(err)
		}
	}
	r := o.start()
	o.insert(10)
	o.awaitDrained()
	k.Broker(1).Proxy().Refuse()
	var numbers []int64
	for range 5 {
		o.insertRow(o.rowOf("lacking"))
		row := o.rowOf("copied")
		o.insertRow(row)
		numbers = append(numbers, row.number)
	}
	o.awaitEvents(patience, numbers...)
	r.kill()

	records := o.records()
	original := slices.IndexFunc(records, func(r harness.Record) bool {
		id, _ := r.Header("event_id")
		return id == idOf(numbers[len(numbers)-1])
	})
	foreign := kgo.RecordHeader{Key: foreignHeader, Value: []byte("1")} // at the end, for the oracle
	copied := records[original].Record
	err := k.Produce(t.Context(), &kgo.Record{
		Topic: o.topic("lacking"), Key: copied.Key, Value: copied.Value, Timestamp: copied.Timestamp, Headers: append(slices.Clone(copied.Headers), foreign),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Broker(1).Proxy().Accept(); err != nil {
		t.Fatal(err)
	}
	again := o.start()
	o.awaitDrained()
	again.awaitLog("a record carries our headers and is not ours; what the partition holds is not recognised, duplicates are possible", 1)
	again.stop()
	o.verify()
}

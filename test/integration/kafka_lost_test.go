//go:build linux || darwin

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaLosesAcknowledgedRecords has a broker come back without the last
// records that it had acknowledged, as one does that was elected uncleanly or
// has lost its disk. The relay says so and sends again what the slot has not been
// confirmed past: nothing is lost for good, and who had read the records finds
// them twice.
func TestKafkaLosesAcknowledgedRecords(t *testing.T) {
	k := harness.NewKafka(t, harness.KafkaConfig{})
	o := newOutbox(t, outboxConfig{kafka: k, types: []string{"order"}, later: []string{"late"}, partitions: 1})
	r := o.start()
	for range 5 {
		o.insertRow(o.rowOf("order"))
	}
	o.awaitDrained()
	o.insertRow(o.rowOf("late")) // which the slot does not get past
	kept := o.insertOrders(5)
	o.awaitEvents(patience, kept...)
	log := o.logOf(k.Broker(0), "order")
	before, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	lost := o.insertOrders(5)
	o.awaitEvents(patience, lost...)
	read := o.records()

	killBroker(t, k.Broker(0))
	if err := os.Truncate(log, before.Size()); err != nil {
		t.Fatal(err)
	}
	startBroker(t, k.Broker(0))
	if now := len(o.records()); now != len(read)-len(lost) {
		t.Fatalf("the topic holds %d records, and held %d", now, len(read))
	}
	behind := o.insertOrders(1)
	r.awaitLog("acknowledged records are no longer in the partition", 1)
	o.awaitEvents(patience, append(lost, behind...)...)
	if line := r.log("acknowledged records are no longer in the partition")[0]; line.text("level") != "ERROR" {
		t.Errorf("the log says %v", line)
	}
	o.createTopic("late")
	o.awaitDrained()
	r.stop()
	counts := make(map[string]int)
	for _, record := range o.records() {
		id, _ := record.Header("event_id")
		counts[id]++
	}
	for id, n := range counts {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	o.removed = append(o.removed, read)
	o.verifyExcept(exceptions{duplicates: "acknowledged records were lost by the brokers"})
}

// insertOrders commits n rows of the type "order", one after the other.
func (o *outbox) insertOrders(n int) []int64 {
	o.t.Helper()
	var numbers []int64
	for range n {
		r := o.rowOf("order")
		o.insertRow(r)
		numbers = append(numbers, r.number)
	}
	return numbers
}

// logOf is the file in which a broker has the records of a topic of one
// partition.
func (o *outbox) logOf(b *harness.Broker, aggregateType string) string {
	return filepath.Join(filepath.Dir(b.LogPath()), "data", o.topic(aggregateType)+"-0", fmt.Sprintf("%020d.log", 0))
}

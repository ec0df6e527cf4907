//go:build linux || darwin

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestPositionIsTheSlotsAlone spoils the record that serves to detect gaps.
// The relay starts from the slot all the same.
//
// Behaviours: P14
func TestPositionIsTheSlotsAlone(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	for _, spoil := range []string{
		"UPDATE outbox_cdc_checkpoint SET confirmed = pg_current_wal_lsn() + 1000000000",
		"UPDATE outbox_cdc_checkpoint SET confirmed = '0/1', clean = false",
		"DELETE FROM outbox_cdc_checkpoint",
	} {
		r.stop()
		o.insert(5)
		o.exec(spoil)
		r = o.start()
		o.insert(5)
		o.awaitDrained()
	}
	o.verify()
}

// TestPositionComparesNumbers has the write-ahead log pass 0/10000000, which
// as text is less than what comes before.
//
// Behaviours: P13
func TestPositionComparesNumbers(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{})
	o := newOutbox(t, outboxConfig{postgres: pg})
	const switchWAL = "SELECT pg_logical_emit_message(false, 'test', 'so that there is something to switch') IS NOT NULL; SELECT pg_switch_wal()"
	for value[bool](o, "SELECT pg_current_wal_lsn() < '0/F000000'") {
		o.exec(switchWAL)
	}
	r := o.start()
	o.insert(3)
	o.awaitDrained()
	before := o.confirmed()
	for o.walEnd() < 0x10000000 {
		o.insertBatch(200)
		o.exec(switchWAL)
	}
	o.awaitDrained()
	o.insert(3)
	o.awaitDrained()
	if after := o.confirmed(); after.String() >= before.String() {
		t.Fatalf("the log has not passed a place where text is misleading: %s and %s", before, after)
	}
	r.stop()
	o.insert(3)
	o.start()
	o.awaitDrained()
	o.verify()
}

// TestPositionMakesRedeliveriesAlike has events delivered again under one
// origin, which takes a slot that was set back and partitions that have lost
// their records. Consumers can tell by everything that they are the same.
//
// Behaviours: P16
func TestPositionMakesRedeliveriesAlike(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	o.exec("SELECT pg_copy_logical_replication_slot($1::text, $1 || '_copy')", o.slot)
	r := o.start()
	o.insert(30)
	o.insertBatch(100)
	o.awaitDrained()
	r.stop()
	first := o.records()
	for p, end := range o.mustEndOffsets() {
		if err := o.kafka.DeleteRecords(t.Context(), p.topic, p.number, end); err != nil {
			t.Fatal(err)
		}
	}
	o.drop()
	o.exec("SELECT pg_copy_logical_replication_slot($1 || '_copy', $1::text)", o.slot)
	o.start()
	o.awaitDrained()
	second := o.records()
	if len(second) != len(first) {
		t.Fatalf("%d records were delivered again, want %d", len(second), len(first))
	}
	for i := range first {
		if got, want := wire(second[i]), wire(first[i]); got != want {
			t.Errorf("delivered again as\n%s\nfirst as\n%s", got, want)
		}
	}
	o.removed = first
	o.verifyExcept(exceptions{duplicates: "the records were deleted", moved: "the slot was set back"})
}

// wire is all of a record that its producer decides.
func wire(r harness.Record) string {
	return fmt.Sprintf("%s/%d key %q value %q headers %q timestamp %s", r.Topic, r.Partition, r.Key, r.Value, r.Headers, r.Timestamp.Format(time.RFC3339Nano))
}

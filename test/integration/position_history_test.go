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

// TestPositionOfARestoredDatabase puts an earlier copy of the data directory in
// place, so that what is committed next has positions that the topics have
// already, of events that are no more. Nothing of the history that counts is
// lost, whether it has come as far as the lost one again or further. What the
// copy's slot had not confirmed, as far as it says, may be there twice.
//
// Behaviours: P14
func TestPositionOfARestoredDatabase(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{})
	o := newOutbox(t, outboxConfig{postgres: pg})
	const before = 20
	r := o.start()
	o.insert(before)
	o.awaitDrained()
	r.stop()
	saved := o.save()
	r = o.start()
	o.insert(20)
	o.insertBatch(200)
	o.awaitDrained()
	r.kill()
	o.sampler.stop()
	o.restore(saved)
	for _, rows := range []int{10, 20, 400} {
		r = o.start()
		o.insert(5)
		o.insertBatch(rows)
		o.awaitDrained()
		r.kill()
	}
	o.start()
	o.awaitDrained()
	o.verified = true // by hand: the oracle knows one history
	found := make(map[string]int)
	for _, record := range o.records() {
		id, _ := record.Header("event_id")
		found[id]++
	}
	ids, err := harness.Query[string](t.Context(), pg, o.database, "SELECT id::text FROM "+o.table)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		most := 1
		if numberOf(id) <= before {
			most = 2
		}
		if n := found[id]; n < 1 || n > most {
			t.Errorf("%s is in the topics %d times", id, n)
		}
	}
	if want := before + 5 + 10 + 5 + 20 + 5 + 400; len(ids) != want {
		t.Errorf("the table has %d rows, want %d", len(ids), want)
	}
}

// save stops the server and starts it again, and returns a copy of its data
// from in between.
func (o *outbox) save() (saved string) {
	o.t.Helper()
	_, err := o.pg.Stop(o.t.Context(), harness.Fast)
	if err == nil {
		saved, err = o.pg.SaveData()
	}
	if err == nil {
		err = o.pg.Start(o.t.Context())
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return saved
}

// restore ends the server and starts it again with data that was saved.
func (o *outbox) restore(saved string) {
	o.t.Helper()
	_, err := o.pg.Stop(o.t.Context(), harness.Immediate)
	if err == nil {
		err = o.pg.RestoreData(saved)
	}
	if err == nil {
		err = o.pg.Start(o.t.Context())
	}
	if err != nil {
		o.t.Fatal(err)
	}
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
	o.removed = append(o.removed, first)
	o.verifyExcept(exceptions{duplicates: "the records were deleted", moved: "the slot was set back"})
}

// wire is all of a record that its producer decides.
func wire(r harness.Record) string {
	return fmt.Sprintf("%s/%d key %q value %q headers %q timestamp %s", r.Topic, r.Partition, r.Key, r.Value, r.Headers, r.Timestamp.Format(time.RFC3339Nano))
}

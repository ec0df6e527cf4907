//go:build linux || darwin

package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestPositionCleanStopRepeatsNothing stops and starts the relay with nothing
// new in between. A relay that confirms the start of the commit record instead
// of its end sends the last transaction again.
//
// Behaviours: P3
func TestPositionCleanStopRepeatsNothing(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insert(20)
	o.insertBatch(5)
	o.awaitDrained()
	r.stop()
	held := o.held()
	for range 3 {
		r = o.start()
		o.awaitDrained()
		r.stop()
	}
	if now := o.held(); now != held {
		t.Errorf("the topics hold %d records and markers, before the restarts %d", now, held)
	}
	o.verify()
}

// TestPositionIsTheEndOfTheCommit has the server send A and B in one go, with
// B's commit record right behind A's, and only A acknowledged. The slot must
// stand between the two to the byte: before A's end A comes again, a byte behind
// it B never does.
//
// Behaviours: P2, P3
func TestPositionIsTheEndOfTheCommit(t *testing.T) {
	o := newOutbox(t, outboxConfig{types: []string{"first"}, later: []string{"second"}})
	r := o.start()
	a, b := o.begin(), o.begin()
	a.insertRow(o.rowOf("first"))
	b.insertRow(o.rowOf("second"))
	// A walsender that has nothing to send says how far it is. That would
	// move the slot too.
	pauseWalsender(t, o.walsender())
	a.commit()
	b.commit()
	resumeWalsender(t, o.walsender())
	events := o.ledger.committed()
	o.awaitConfirmed(events[0].end, patience)
	if confirmed := o.confirmed(); confirmed != events[0].end {
		t.Errorf("the slot is confirmed up to %s instead of %s", confirmed, events[0].end)
	}
	r.kill()
	o.createTopic("second")
	o.start()
	o.awaitDrained()
	o.verify()
}

// pauseWalsender and resumeWalsender stop a process of the server and let it go
// on.
func pauseWalsender(t testing.TB, pid int) {
	t.Helper()
	if err := harness.PausePID(pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = harness.ResumePID(pid) }) // it may be gone
}

func resumeWalsender(t testing.TB, pid int) {
	t.Helper()
	if err := harness.ResumePID(pid); err != nil {
		t.Fatal(err)
	}
}

// TestPositionFollowsCommitsNotInserts has a long transaction begin before
// short ones that are published while it is open, and ends the relay before it
// commits. Its rows have positions behind what is confirmed by then.
//
// Behaviours: P4, P6, O5
func TestPositionFollowsCommitsNotInserts(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*relay)
	}{
		{"stopped", func(r *relay) { r.stop() }},
		{"killed", (*relay).kill},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOutbox(t, outboxConfig{})
			r := o.start()
			long := o.begin()
			long.insert(5)
			o.insert(1)
			o.awaitDrained()
			long.insert(5)
			o.insert(3)
			o.awaitDrained()
			c.end(r)
			o.insert(2)
			long.commit()
			o.insert(2)
			o.start()
			o.awaitDrained()
			o.verify()
		})
	}
}

// TestPositionSurvivesKillsInTheMiddleOfACopy kills the relay while it
// publishes the rows of a COPY, all of which have the position of one commit.
//
// Behaviours: P5, K4
func TestPositionSurvivesKillsInTheMiddleOfACopy(t *testing.T) {
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k})
	const rows = 10_000
	kills := many(6, 20)
	for i := range kills {
		tx := o.begin()
		tx.copy(rows)
		held := o.held()
		k.Broker(0).Proxy().Throttle(harness.ToServer, 8<<20)
		r := o.start()
		tx.commit()
		o.awaitRecords(held + rows*(i+1)/(kills+2))
		r.kill()
		k.Broker(0).Proxy().Resume()
	}
	o.start()
	o.awaitDrained()
	o.verify()
}

// TestPositionLosesSavepointsOnly rolls back to a savepoint in a transaction
// that the server spills to disk.
//
// Behaviours: P11
func TestPositionLosesSavepointsOnly(t *testing.T) {
	o := newOutbox(t, outboxConfig{settings: map[string]string{"logical_decoding_work_mem": "64kB"}})
	o.start()
	tx := o.begin()
	tx.bulk(5000, 64)
	tx.savepoint("s")
	tx.bulk(5000, 64)
	tx.rollbackTo("s")
	tx.insert(10)
	tx.commit()
	given := o.begin()
	given.bulk(100, 64)
	given.rollback()
	o.awaitDrained()
	if n := len(o.records()); n != 5010 {
		t.Errorf("the topics hold %d records, want 5010", n)
	}
	o.verify()
}

// TestPositionIsFlushedWhenStopped stops the relay under load. What it has
// published is confirmed then, but for the one transaction that it was reading.
//
// Behaviours: P15
func TestPositionIsFlushedWhenStopped(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	endLoad := o.load(4)
	for range many(4, 20) {
		r := o.start()
		o.awaitCommitted(150)
		r.stop()
		confirmed := o.confirmed()
		published := make(map[string]bool)
		for _, record := range o.records() {
			id, _ := record.Header("event_id")
			published[id] = true
		}
		unconfirmed := make(map[string]bool) // positions of commits
		for _, event := range o.ledger.committed() {
			if published[event.id] && event.end > confirmed {
				unconfirmed[event.end.String()] = true
			}
		}
		if len(unconfirmed) > 1 {
			t.Errorf("the relay was stopped at %s and has published %d transactions behind that", confirmed, len(unconfirmed))
		}
	}
	endLoad()
	o.start()
	o.awaitDrained()
	o.verify()
}

// TestPositionIsFlushedThoughTheRecordIsLate stops the relay before it has been
// able to write its record, without which the slot must not be moved. It waits
// for that, and then confirms what was acknowledged.
//
// Behaviours: P15
func TestPositionIsFlushedThoughTheRecordIsLate(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	lock := o.begin()
	lock.exec("LOCK TABLE outbox_cdc_checkpoint IN EXCLUSIVE MODE")
	before := o.confirmed()
	r := o.start()
	o.insert(5)
	end := o.walEnd()
	o.awaitPublished()
	if err := r.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	o.hold(time.Second, func() error {
		r.mustRun()
		if now := o.confirmed(); now != before {
			return fmt.Errorf("the slot was moved from %s to %s, and there is no record", before, now)
		}
		return nil
	})
	lock.rollback()
	if code, err := r.Wait(t.Context()); code != 0 || err != nil {
		t.Fatalf("exit code %d (%v) instead of 0:\n%s", code, err, r.Stderr())
	}
	if confirmed := o.confirmed(); confirmed < end {
		t.Errorf("the slot is confirmed up to %s, and all up to %s was acknowledged", confirmed, end)
	}
	o.verify()
}

// TestPositionSurvivesRestartsOfTheServer restarts PostgreSQL under load. On
// 14 to 16 a slot has moved back after that, on all versions after a crash; what
// comes again is recognised in the partitions.
//
// Behaviours: P14, S6
func TestPositionSurvivesRestartsOfTheServer(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{})
	o := newOutbox(t, outboxConfig{postgres: pg})
	r := o.start()
	endLoad := o.load(3)
	for i, mode := range []harness.StopMode{harness.Fast, harness.Immediate} {
		o.awaitCommitted(200)
		if err := pg.Restart(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
		r.awaitLog("session started", i+2)
	}
	o.awaitCommitted(100)
	endLoad()
	o.awaitDrained()
	o.verify()
}

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
	o.execWhenFree("SELECT pg_drop_replication_slot($1)")
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

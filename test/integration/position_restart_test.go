//go:build linux || darwin

package integration

import (
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

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

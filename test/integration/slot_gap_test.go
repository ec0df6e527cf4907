//go:build linux || darwin

package integration

import (
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// exitGap is the exit code for a slot that cannot be gone on from without a
// person's look.
const exitGap = 6

// movedByHand is the circumstance of tests in which somebody moves the slot.
const movedByHand = "the test has moved the slot past events"

// recreate drops the slot and creates it again, as somebody might who does not
// know what it is for.
func (o *outbox) recreate() {
	o.t.Helper()
	o.drop()
	o.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", o.slot)
}

// drop drops the slot.
func (o *outbox) drop() {
	o.t.Helper()
	o.execWhenFree("SELECT pg_drop_replication_slot($1)")
}

// advance moves the slot to the end of the write-ahead log.
func (o *outbox) advance() {
	o.t.Helper()
	o.execWhenFree("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())")
}

// execWhenFree executes SQL on the slot as soon as nobody holds it: the
// walsender of a relay that has ended may still be about to.
func (o *outbox) execWhenFree(sql string) {
	o.t.Helper()
	harness.Eventually(o.t, patience, func() error { return o.pg.Exec(o.t.Context(), o.database, sql, o.slot) })
}

// TestSlotThatIsMissing starts the relay on a slot that was dropped. To create
// it silently would be a silent gap.
//
// Behaviours: P12
func TestSlotThatIsMissing(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	o.drop()
	o.insert(3)
	o.launch().expectExit(patience, exitGap, o.slot, "does not exist", "outbox-cdc slot create")
	if n := value[int](o, "SELECT count(*)::int FROM pg_replication_slots WHERE slot_name = $1", o.slot); n != 0 {
		t.Error("the relay has created the slot")
	}
	if n := len(o.records()); n != 0 {
		t.Errorf("the topics hold %d records, want none", n)
	}
	o.verifyExcept(exceptions{incomplete: "the slot was dropped before the rows were committed"})
}

// TestSlotMovedBetweenSessions has somebody move the slot between a clean stop
// and the next start. The relay does not go on before somebody has accepted the
// position.
//
// Behaviours: P12
func TestSlotMovedBetweenSessions(t *testing.T) {
	for _, c := range []struct {
		name string
		move func(*outbox)
	}{
		{"dropped and created again", (*outbox).recreate},
		{"advanced", (*outbox).advance},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOutbox(t, outboxConfig{})
			r := o.start()
			o.insert(5)
			o.awaitDrained()
			r.stop()
			before := o.confirmed()
			o.insert(5)
			c.move(o)
			after := o.confirmed()
			held := o.held()
			o.launch().expectExit(patience, exitGap, o.slot, before.String(), after.String(), "outbox-cdc slot advance")
			if now := o.held(); now != held {
				t.Errorf("the topics hold %d records and markers, before the refusal %d", now, held)
			}
			if now := o.confirmed(); now != after {
				t.Errorf("the slot was confirmed up to %s, before the refusal %s", now, after)
			}
			if result := o.command("slot", "advance", "--to", after.String(), "--yes"); result.Code != 0 {
				t.Fatalf("slot advance ended with %d: %s", result.Code, result.Stderr)
			}
			o.start()
			o.insert(5)
			o.awaitDrained()
			o.verifyExcept(exceptions{moved: movedByHand})
		})
	}
}

// TestSlotMovedBehindARunningRelay has somebody end the relay's session and
// tamper with the slot while the relay hangs.
//
// Behaviours: P12
func TestSlotMovedBehindARunningRelay(t *testing.T) {
	for _, c := range []struct {
		name  string
		move  func(*outbox)
		texts []string
	}{
		{"advanced", (*outbox).advance, []string{"outbox-cdc slot advance"}},
		{"dropped and created again", (*outbox).recreate, []string{"outbox-cdc slot advance"}},
		{"dropped", (*outbox).drop, []string{"does not exist", "outbox-cdc slot create"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOutbox(t, outboxConfig{})
			r := o.start()
			o.insert(5)
			o.awaitDrained()
			r.pause()
			o.exec("SELECT pg_terminate_backend($1)", o.walsender())
			o.insert(5)
			c.move(o)
			r.resume()
			r.expectExit(patience, exitGap, append(c.texts, o.slot)...)
			if n := len(o.records()); n != 5 {
				t.Errorf("the topics hold %d records, want the 5 from before", n)
			}
			o.verifyExcept(exceptions{moved: movedByHand})
		})
	}
}

// TestSlotAheadAfterACrash starts the relay after a crash on a slot that is
// ahead of its record. That may be its own progress: it warns and goes on.
//
// Behaviours: P12
func TestSlotAheadAfterACrash(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	r.kill()
	o.insert(5)
	o.advance()
	recorded := o.lsn("SELECT confirmed::text FROM outbox_cdc_checkpoint WHERE slot = $1", o.slot)
	moved := o.confirmed()
	r = o.start()
	warned := false
	for _, line := range r.log("") {
		message := line.text("msg")
		warned = warned || line.text("level") == "WARN" && strings.Contains(message, recorded.String()) && strings.Contains(message, moved.String())
	}
	if !warned {
		t.Errorf("no warning names both positions, %s and %s:\n%s", recorded, moved, r.Stderr())
	}
	o.insert(5)
	o.awaitDrained()
	o.verifyExcept(exceptions{moved: movedByHand})
}

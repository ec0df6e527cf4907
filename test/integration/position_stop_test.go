//go:build linux || darwin

package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"
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

//go:build linux || darwin

package integration

import (
	"testing"
)

// TestPositionCleanStopRepeatsNothing stops and starts the relay with nothing
// new in between. A relay that confirms the start of the commit record instead
// of its end sends the last transaction again.
//
// Behaviours: P3, P14
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

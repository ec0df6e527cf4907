package replication

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamTurnsUnlessItIsStuck counts how often the reader comes round, when
// nothing happens, when the publisher takes nothing, and when the reader itself
// hangs.
func TestStreamTurnsUnlessItIsStuck(t *testing.T) {
	for name, chunks := range map[string]int{"nothing happens": 1000, "the publisher takes nothing": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t, Config{}, Server{WALSenderTimeout: time.Minute}, chunks)
				w.answer()
				turns := func() bool {
					before := w.stream.Turns()
					time.Sleep(w.stream.TurnsWithin())
					synctest.Wait()
					return w.stream.Turns() > before
				}
				for range 5 {
					if !turns() {
						t.Error("it does not turn")
					}
				}
				hold := make(chan struct{})
				w.hold.Store(&hold)
				time.Sleep(w.stream.TurnsWithin())
				if turns() {
					t.Error("it turns although it is stuck")
				}
				close(hold)
				_ = w.end() // by then the status is too late for the connection
			})
		})
	}
}

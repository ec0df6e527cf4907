package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a publisher whose loop answers as long as it is not stuck.
type answers struct{ stuck atomic.Bool }

func (a *answers) alive(ctx context.Context) error {
	if a.stuck.Load() {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// watched is a watchdog over loops that move, which a test can stop.
type watched struct {
	*watchdog
	publisher *answers
	// turns is what the reader has counted; it grows with each look until it stays.
	turns uint64
	stays atomic.Bool
}

const readsWithin = 20 * time.Second

// newWatched returns a watchdog over a session that is up.
func newWatched() *watched {
	w := &watched{publisher: &answers{}}
	w.watchdog = newWatchdog(newHealth(), w.publisher.alive, 10*time.Second)
	w.health.active(sessionInfo{id: "one"})
	w.health.reads(reader{within: readsWithin, turns: func() uint64 {
		if !w.stays.Load() {
			w.turns++
		}
		return w.turns
	}})
	return w
}

// TestStuckLoopsAreNoticed stops one loop after the other and lets it go on.
//
// Behaviours: R1
func TestStuckLoopsAreNoticed(t *testing.T) {
	over := func(h *health) func() { return func() { h.reads(reader{}) } }
	for _, tc := range []struct {
		name       string
		stop, free func(*watched)
		after      time.Duration
		says       string
	}{
		{
			name: "the publisher does not answer", after: stuckAfter, says: loopPublisher,
			stop: func(w *watched) { w.publisher.stuck.Store(true) }, free: func(w *watched) { w.publisher.stuck.Store(false) },
		},
		{
			name: "the reader does not come round", after: stuckAfter + readsWithin, says: loopReader,
			stop: func(w *watched) { w.stays.Store(true) }, free: func(w *watched) { w.stays.Store(false) },
		},
		{
			name: "a session does not end although nothing is read any more", after: stuckAfter, says: loopSessions,
			stop: func(w *watched) { over(w.health)() }, free: func(w *watched) { w.health.failed(errAway, time.Hour) },
		},
		{
			name: "no session begins although the pause is over", after: stuckAfter, says: loopSessions,
			stop: func(w *watched) { w.health.failed(errAway, 0) }, free: func(w *watched) { w.health.attempt() },
		},
		{
			name: "the stop does not end", after: stuckAfter + 10*time.Second, says: loopStop,
			stop: func(w *watched) { w.health.stopping() }, free: func(*watched) {},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatched()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go w.run(ctx)
				time.Sleep(time.Hour)
				synctest.Wait()
				if stuck := w.stuck(); stuck != "" {
					t.Fatalf("before anything was wrong: %s", stuck)
				}
				tc.stop(w)
				time.Sleep(tc.after - 2*time.Second)
				if stuck := w.stuck(); stuck != "" {
					t.Errorf("too early: %s", stuck)
				}
				time.Sleep(6 * time.Second)
				if stuck := w.stuck(); !strings.HasPrefix(stuck, tc.says) {
					t.Errorf("got %q, want a line about %s", stuck, tc.says)
				}
				tc.free(w)
				time.Sleep(3 * time.Second)
				if stuck := w.stuck(); (stuck != "") != (tc.says == loopStop) {
					t.Errorf("when it goes on: %q", stuck)
				}
			})
		})
	}
}

// TestServersThatAreAwayAreNoReasonToRestart has no session for a day.
func TestServersThatAreAwayAreNoReasonToRestart(t *testing.T) {
	for name, away := range map[string]func(*health){
		"an attempt that gets no answer":  func(h *health) { h.failed(errAway, time.Second); h.attempt() },
		"a slot that somebody else holds": func(h *health) { h.standby(7) },
		"brokers that are not found":      func(h *health) { h.attempt() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHealth()
				away(h)
				w := newWatchdog(h, (&answers{}).alive, 0)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go w.run(ctx)
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if stuck := w.stuck(); stuck != "" {
					t.Error(stuck)
				}
			})
		})
	}
}

// TestFrozenProcessIsNotStuck has nobody look for an hour, as if the process had
// been frozen, and then before any loop has had time to move.
func TestFrozenProcessIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched()
		w.look(t.Context())
		time.Sleep(time.Hour)
		w.stays.Store(true)
		w.publisher.stuck.Store(true)
		w.health.failed(errors.New("too late"), 0)
		time.Sleep(time.Minute)
		w.look(t.Context())
		if stuck := w.stuck(); stuck != "" {
			t.Error(stuck)
		}
	})
}

package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// lookInterval is how often the watchdog looks.
	lookInterval = time.Second
	// stuckAfter is how long a loop that should move may stand still.
	stuckAfter = 30 * time.Second
)

// watchdog finds out whether the loops of the process move. A server or broker
// that is away stops none of them, so a loop that stands still is a fault of
// ours, and the one thing that a restart helps against.
//
// It counts its own looks instead of reading a clock: a process that was frozen
// for an hour, or a machine that slept, is not stuck when it wakes.
type watchdog struct {
	health *health
	// answer asks the loop of the publisher to answer before ctx ends.
	answer func(ctx context.Context) error
	// stopWithin is how long a stop in order may take.
	stopWithin time.Duration

	// turns is what the reader had counted at the last look. It belongs to run.
	turns uint64

	mu sync.Mutex // guards what follows
	// still counts for each loop the looks in a row that found it standing
	// still, most how many there may be.
	still, most map[string]int
}

// The loops that the watchdog knows.
const (
	loopPublisher = "the publisher"
	loopReader    = "the reader of the stream"
	loopSessions  = "the session loop"
	loopStop      = "the stop"
)

func newWatchdog(h *health, answer func(context.Context) error, stopWithin time.Duration) *watchdog {
	return &watchdog{health: h, answer: answer, stopWithin: stopWithin, still: make(map[string]int), most: make(map[string]int)}
}

// run looks again and again until ctx ends.
func (w *watchdog) run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look(ctx)
		}
	}
}

// look looks at each loop once. The publisher is given one interval to answer.
func (w *watchdog) look(ctx context.Context) {
	now := w.health.situation()
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	w.note(loopPublisher, w.answer(ctx) == nil, 0)
	w.note(loopReader, w.readerMoves(now.reader), now.reader.within)
	w.note(loopSessions, !overdue(now), 0)
	w.note(loopStop, now.state != stateStopping, w.stopWithin)
}

// readerMoves reports whether the reader has come round since the last look, or
// has nothing to read.
func (w *watchdog) readerMoves(r reader) bool {
	if r.turns == nil {
		return true
	}
	turns := r.turns()
	moves := turns != w.turns
	w.turns = turns
	return moves
}

// overdue reports whether the session loop should have gone on: to its next
// attempt when the pause is over, and to the end of a session whose stream is no
// longer read.
func overdue(now situation) bool {
	switch {
	case now.state == stateStopping:
		return false
	case now.state == stateActive:
		return now.reader.turns == nil
	}
	return !now.retryAt.IsZero() && time.Now().After(now.retryAt)
}

// note counts a look at a loop that may stand still for stuckAfter and longer.
func (w *watchdog) note(loop string, moves bool, longer time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most[loop] = int((stuckAfter + longer) / lookInterval)
	if moves {
		w.still[loop] = 0
	} else {
		w.still[loop]++
	}
}

// stuck names a loop that stands still, and is empty as long as all move.
func (w *watchdog) stuck() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, loop := range []string{loopPublisher, loopReader, loopSessions, loopStop} {
		if looks := w.still[loop]; looks > w.most[loop] {
			return fmt.Sprintf("%s has not moved for %s; what it waits for is a fault of this program, which a restart ends", loop, time.Duration(looks)*lookInterval)
		}
	}
	return ""
}

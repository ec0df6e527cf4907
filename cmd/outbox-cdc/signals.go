package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"time"
)

var (
	errInterrupted  = errors.New("stopped by a signal")
	errSecondSignal = errors.New("stopped at once by a second signal; what was not confirmed is published at the next start, unless Kafka has it already")
)

// stopping tells in two steps that the process has to end.
type stopping struct {
	// soft ends with the first signal: finish what is under way.
	soft context.Context
	// hard ends with the second: leave at once.
	hard context.Context
}

// sameSignal is how soon a signal may come again and be the same one: timeout(1),
// shells and process managers signal a process and then its whole group.
const sameSignal = 100 * time.Millisecond

// watchSignals returns what the signals of this system end, and what ends the
// watch. A third signal ends the process as if nobody watched.
func watchSignals() (stopping, func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopSignals()...)
	soft, stop := context.WithCancelCause(context.Background())
	hard, leave := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, ok := <-signals; !ok {
			return
		}
		first := time.Now()
		stop(errInterrupted)
		for again := true; again; again = time.Since(first) < sameSignal {
			if _, ok := <-signals; !ok {
				return
			}
		}
		leave(errSecondSignal)
		signal.Reset(stopSignals()...)
	}()
	return stopping{soft: soft, hard: hard}, func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

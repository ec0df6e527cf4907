package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
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
		for _, cancel := range []func(){func() { stop(errInterrupted) }, func() { leave(errSecondSignal) }} {
			if _, ok := <-signals; !ok {
				return
			}
			cancel()
		}
		signal.Stop(signals)
		signal.Reset(stopSignals()...)
	}()
	return stopping{soft: soft, hard: hard}, func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

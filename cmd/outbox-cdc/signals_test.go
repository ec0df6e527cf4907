//go:build !windows

package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestSignals(t *testing.T) {
	stop, release := watchSignals()
	defer release()
	signal := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	first := time.Now()
	signal()
	<-stop.soft.Done()
	if cause := context.Cause(stop.soft); !errors.Is(cause, errInterrupted) {
		t.Errorf("got %v, want %v", cause, errInterrupted)
	}
	again := time.NewTicker(sameSignal / 10)
	defer again.Stop()
	for stop.hard.Err() == nil {
		select {
		case <-again.C:
			signal()
		case <-stop.hard.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the second signal did nothing")
		}
	}
	if took := time.Since(first); took < sameSignal {
		t.Errorf("the same signal, %s later, was taken for a second one", took)
	}
	if cause := context.Cause(stop.hard); !errors.Is(cause, errSecondSignal) {
		t.Errorf("got %v, want %v", cause, errSecondSignal)
	}
}

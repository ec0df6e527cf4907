//go:build profile

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
)

// profile writes, in a binary built with the tag profile, a CPU profile of the
// whole life of the process to the file that OUTBOX_CDC_CPU_PROFILE names, and
// when the returned function is called one of the heap to that of
// OUTBOX_CDC_HEAP_PROFILE: what was allocated, and what is in use after a
// collection.
//
//	go build -tags profile ./cmd/outbox-cdc
func profile(stderr io.Writer) (stop func()) {
	var err error
	var cpu *os.File
	if path := os.Getenv("OUTBOX_CDC_CPU_PROFILE"); path != "" {
		if cpu, err = os.Create(path); err == nil {
			err = pprof.StartCPUProfile(cpu)
		}
	}
	complain(stderr, err)
	return func() {
		pprof.StopCPUProfile()
		var err error
		if cpu != nil {
			err = cpu.Close()
		}
		complain(stderr, errors.Join(err, profileHeap(os.Getenv("OUTBOX_CDC_HEAP_PROFILE"))))
	}
}

func profileHeap(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}

func complain(stderr io.Writer, err error) {
	if err != nil {
		fmt.Fprintf(stderr, "outbox-cdc: no profile: %v\n", err)
	}
}

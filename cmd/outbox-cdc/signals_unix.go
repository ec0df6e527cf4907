//go:build !windows

package main

import (
	"os"
	"syscall"
)

// stopSignals are the signals that ask the process to end.
func stopSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

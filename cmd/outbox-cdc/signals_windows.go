package main

import "os"

// stopSignals are the signals that ask the process to end: Windows has only
// Ctrl-C and Ctrl-Break.
func stopSignals() []os.Signal { return []os.Signal{os.Interrupt} }

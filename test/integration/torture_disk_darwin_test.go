package integration

// diskFaults are none: a running process cannot be limited from outside.
func diskFaults() []*fault { return nil }

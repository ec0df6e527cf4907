//go:build !profile

package main

import "io"

// profile does nothing in the binary as it is released.
func profile(io.Writer) (stop func()) { return func() {} }

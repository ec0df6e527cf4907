//go:build linux || darwin

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// A test must not depend on the environment of whoever runs it.
func TestMain(m *testing.M) {
	for _, o := range definitions() {
		os.Unsetenv(environment(o.name))
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			os.Unsetenv(name)
		}
	}
	os.Exit(harness.Main(m))
}

//go:build linux || darwin

package main

import (
	"os"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// A test must not depend on the environment of whoever runs it.
func TestMain(m *testing.M) {
	for _, f := range definitions() {
		os.Unsetenv(environment(f.Names()[0]))
	}
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSERVICE"} {
		os.Unsetenv(name)
	}
	os.Exit(harness.Main(m))
}

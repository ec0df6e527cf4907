//go:build linux || darwin

package harness

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(envVictim) != "" {
		fmt.Fprintln(os.Stderr, victim())
		os.Exit(1)
	}
	os.Exit(Main(m))
}

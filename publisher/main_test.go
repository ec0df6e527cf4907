//go:build linux || darwin

package publisher

import (
	"os"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// runLong runs a case that takes long, if such cases are run.
func runLong(t *testing.T, name string, test func(*testing.T)) {
	if harness.Long() {
		t.Run(name, test)
	}
}

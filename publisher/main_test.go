//go:build linux || darwin

package publisher

import (
	"os"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// long says that cases which take longer than some 20 seconds are run too.
func long() bool { return os.Getenv("OUTBOX_CDC_TEST_LONG") == "1" }

// runLong runs a case that takes long, if such cases are run.
func runLong(t *testing.T, name string, test func(*testing.T)) {
	if long() {
		t.Run(name, test)
	}
}

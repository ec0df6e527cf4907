//go:build linux || darwin

package publisher

import (
	"os"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

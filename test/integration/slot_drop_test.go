//go:build linux || darwin

package integration

import (
	"fmt"
	"strings"
	"testing"
)

// TestSlotOfARunningRelayIsProtected tries to drop and to advance the slot under
// a relay that runs. With --force it goes, and the relay, whose rows nobody
// keeps any more, ends.
//
// Behaviours: R4
func TestSlotOfARunningRelayIsProtected(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	holder := fmt.Sprintf("process %d of the server (user postgres, application outbox-cdc, from 127.0.0.1)", o.walsender())
	for _, command := range []string{"slot drop --yes", "slot advance --to now --yes"} {
		expectFailure(t, o.command(strings.Fields(command)...), exitBusy, o.slot, "in use by "+holder)
	}
	o.insert(5)
	o.awaitDrained()
	result := o.command("slot", "drop", "--yes", "--force")
	if result.Code != 0 || !strings.Contains(result.Stdout, "ended "+holder) || !strings.Contains(result.Stdout, "slot "+o.slot+" dropped at ") {
		t.Fatalf("slot drop ended with %d:\n%s%s", result.Code, result.Stdout, result.Stderr)
	}
	r.expectExit(patience, exitGap, o.slot, "does not exist")
	result = o.command("slot", "create")
	if result.Code != 0 || !strings.Contains(result.Stderr, "existed before and had confirmed ") {
		t.Fatalf("slot create ended with %d: %s", result.Code, result.Stderr)
	}
	o.start()
	o.insert(5)
	o.awaitDrained()
	o.verify()
}

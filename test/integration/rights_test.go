//go:build linux || darwin

package integration

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// blindLine is what the relay logs when it may not look at its walsender.
const blindLine = "a server that holds the slot back will not be noticed"

// TestRightsAreTriedAndNotRead runs the relay as a role whose attributes say
// that it may not replicate, although it may.
//
// Behaviours: S26
func TestRightsAreTriedAndNotRead(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	role := harness.Name(t)
	o.exec("CREATE ROLE " + role + " LOGIN SUPERUSER NOREPLICATION")
	o.exec("DO $$ BEGIN CREATE ROLE rds_replication; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	o.exec(fmt.Sprintf("CREATE ROLE %[1]s_member LOGIN; GRANT rds_replication TO %[1]s_member; CREATE ROLE %[1]s_none LOGIN", role))
	for name, warned := range map[string]bool{role: false, role + "_member": false, role + "_none": true} {
		if result := o.command("init", "--role", name); result.Code != 0 || strings.Contains(result.Stderr, "ALTER ROLE") != warned {
			t.Errorf("init for role %s ended with %d: %s", name, result.Code, result.Stderr)
		}
	}
	r := o.start("--dsn", o.as(url.User(role)))
	o.insert(5)
	o.awaitDrained()
	r.stop()
	o.verify()
}

// TestRightsToMonitor takes the functions of the server by which it is watched
// from everybody, one after the other. A list of slots goes without what they
// tell, and says so in one line; the relay goes without those that it can do
// without.
//
// Behaviours: S26
func TestRightsToMonitor(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	role, login := relayRole(t, o)
	revoke := func(function string) { o.exec("REVOKE EXECUTE ON FUNCTION " + function + " FROM PUBLIC") }
	grant := func(function string) string {
		return fmt.Sprintf("GRANT EXECUTE ON FUNCTION %s TO \"%s\"", function, role)
	}
	list := func(arguments ...string) harness.Result {
		t.Helper()
		result := harness.RunRelay(t, nil, append(append([]string{"slot"}, arguments...), login...)...)
		if result.Code != 0 || !strings.Contains(result.Stdout, o.slot) {
			t.Fatalf("slot %v ended with %d:\n%s%s", arguments, result.Code, result.Stdout, result.Stderr)
		}
		return result
	}
	if result := list("list"); result.Stderr != "" {
		t.Errorf("a role without special rights is told: %s", result.Stderr)
	}
	r := o.start(login...)
	for i, function := range []string{"pg_stat_get_wal_senders()", "pg_stat_get_activity(integer)"} {
		revoke(function)
		for _, arguments := range [][]string{{"list"}, {"list", "-o", "json"}, {"show", "--slot", o.slot}} {
			result := list(arguments...)
			if lines := strings.Count(result.Stderr, "\n"); lines != 1 || !strings.Contains(result.Stderr, "left out") || !strings.Contains(result.Stderr, function) {
				t.Errorf("without %s, slot %v said:\n%s", function, arguments, result.Stderr)
			}
		}
		o.insert(5)
		o.awaitDrained()
		if i == 1 {
			r.awaitLog(blindLine, 1)
		}
	}
	r.stop()
	if n := len(r.log("session started")); n != 1 {
		t.Errorf("%d sessions instead of one:\n%s", n, r.Stderr())
	}

	revoke("pg_current_wal_lsn()")
	result := list("list", "-o", "json")
	if lines := strings.Count(result.Stderr, "\n"); lines != 2 || !strings.Contains(result.Stderr, "lag and retained bytes are left out") ||
		!strings.Contains(result.Stderr, "pg_current_wal_lsn()") {
		t.Errorf("slot list said:\n%s", result.Stderr)
	}
	var slots []map[string]any
	if err := json.Unmarshal([]byte(result.Stdout), &slots); err != nil {
		t.Fatal(err)
	}
	for _, slot := range slots {
		for _, unknown := range []string{"lag_bytes", "retained_bytes"} {
			if value, present := slot[unknown]; !present || value != nil {
				t.Errorf("slot %v: %s is %v, want null", slot["name"], unknown, value)
			}
		}
	}
	// The relay asks for the end of the WAL when it acquires a partition.
	o.launch(login...).expectExit(patience, exitDenied, "may not execute pg_current_wal_lsn()", "GRANT EXECUTE ON FUNCTION pg_current_wal_lsn()")
	o.exec(grant("pg_current_wal_lsn()"))
	r = o.start(login...)
	o.insert(5)
	o.awaitDrained()
	r.stop()
	o.verify()
}

//go:build linux || darwin

package integration

import (
	"context"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// otherSlot has a case make a slot of its own beside the outbox's, by a call
// that takes the name. It ends with the database.
func otherSlot(call string) func(*outbox) []string {
	return func(o *outbox) []string {
		name := harness.Name(o.t)
		o.exec("SELECT "+call, name)
		return []string{"--slot", name}
	}
}

// slotRefusals are slots that the relay cannot stream from. Those that were
// moved are in slot_gap_test.go.
var slotRefusals = []refusal{
	{
		name:  "slot missing",
		flags: args("--slot", "other"),
		code:  exitGap, texts: []string{`"other"`, "failover", "outbox-cdc slot create --slot other"},
	},
	{
		name:  "slot of another plugin",
		flags: func(o *outbox) []string { return []string{"--slot", o.ledger.slot} },
		code:  exitUsage, texts: []string{"test_decoding", "pgoutput", "outbox-cdc slot create"},
	},
	{
		name:  "slot that is physical",
		flags: otherSlot("pg_create_physical_replication_slot($1)"),
		code:  exitUsage, texts: []string{"physical", "--slot"},
	},
	{
		name:  "slot of two-phase commits",
		flags: otherSlot("pg_create_logical_replication_slot($1, 'pgoutput', false, true)"),
		code:  exitUsage, texts: []string{"two_phase", "outbox-cdc slot create"},
	},
	{
		name: "slot of another database",
		flags: func(o *outbox) []string {
			elsewhere := harness.NewDatabase(o.t, o.pg)
			if err := o.pg.Exec(o.t.Context(), elsewhere, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", elsewhere); err != nil {
				o.t.Fatal(err)
			}
			return []string{"--slot", elsewhere}
		},
		code: exitUsage, texts: []string{"belongs to database", "correct --dsn or --slot"},
	},
	{
		name: "slot that is temporary",
		flags: func(o *outbox) []string {
			name := harness.Name(o.t)
			conn, err := o.pg.Connect(o.t.Context(), o.database)
			if err == nil {
				_, err = conn.Exec(o.t.Context(), "SELECT pg_create_logical_replication_slot($1, 'pgoutput', true)", name)
			}
			if err != nil {
				o.t.Fatal(err)
			}
			o.t.Cleanup(func() { conn.Close(context.Background()) })
			return []string{"--slot", name}
		},
		code: exitUsage, texts: []string{"temporary", "outbox-cdc slot create"},
	},
	{
		name: "slot in use",
		flags: func(o *outbox) []string {
			name := harness.Name(o.t)
			o.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", name)
			holder := o.launch("--slot", name, "--topic", "nothing.{aggregate_type}")
			holder.awaitLog("session started", 1)
			return []string{"--slot", name, "--no-wait"}
		},
		code: exitBusy, texts: []string{"in use by process", "--no-wait"},
	},
}

// TestSlotOlderThanThePublication writes rows while there is a slot and no
// publication. The server cannot decode them, ever: the relay says so, and that
// the slot has to be made again behind the publication, which is enough.
//
// Behaviours: S5
func TestSlotOlderThanThePublication(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	o.exec("DROP PUBLICATION outbox_cdc")
	o.insert(3)
	if result := o.command("publication", "create"); result.Code != 0 {
		t.Fatalf("publication create ended with %d: %s", result.Code, result.Stderr)
	}
	before := o.confirmed()
	for range 2 { // a restart makes nothing worse
		o.launch().expectExit(patience, exitGap, o.slot, "publication did not exist when the next rows were written", "create the slot again, after the publication", "outbox-cdc slot drop")
	}
	if now := o.confirmed(); now != before {
		t.Errorf("the slot was confirmed up to %s, before %s", now, before)
	}
	for _, command := range [][]string{{"slot", "drop", "--yes"}, {"slot", "create"}} {
		if result := o.command(command...); result.Code != 0 {
			t.Fatalf("%v ended with %d: %s", command, result.Code, result.Stderr)
		}
	}
	o.start()
	o.insert(3)
	o.awaitDrained()
	if n := len(o.records()); n != 3 {
		t.Errorf("the topics hold %d records, want those of the 3 rows behind the slot", n)
	}
	o.verifyExcept(exceptions{moved: "the slot was made again behind rows that cannot be decoded"})
}

// TestRefusalOfALostSlot starts the relay on a slot whose write-ahead log the
// server has removed, as a supervisor would, again and again.
func TestRefusalOfALostSlot(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{
		"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB",
	}})
	env := []string{"OUTBOX_CDC_DSN=" + pg.DSN("postgres"), "OUTBOX_CDC_BROKERS=" + harness.SharedKafka(t, 1).Addrs()[0]}
	if result := harness.RunRelay(t, env, "init"); result.Code != 0 {
		t.Fatalf("init ended with %d: %s", result.Code, result.Stderr)
	}
	for _, sql := range []string{
		"SELECT pg_switch_wal()", "CREATE TABLE other ()", "SELECT pg_switch_wal()", "DROP TABLE other", "SELECT pg_switch_wal()", "CHECKPOINT",
	} {
		if err := pg.Exec(t.Context(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		expectFailure(t, harness.RunRelay(t, env, "run"), exitGap, `"outbox_cdc" is lost`, "max_slot_wal_keep_size", "outbox-cdc slot drop")
	}
}

//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestInit(t *testing.T) {
	s := newShop(t)
	s.want(codeOK, "init", `"public"."outbox_events": created`, `"public"."outbox_cdc_checkpoint": created`,
		`"public"."outbox_dead_letters": created`, "CREATE PUBLICATION", "created at")
	columns := "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'outbox_events'::regclass AND attnum > 0"
	if got, want := s.value(columns), "id aggregate_type aggregate_id event_type payload metadata created_at"; got != want {
		t.Errorf("got the columns %s, want %s", got, want)
	}
	before := s.value("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.slot)
	again := s.want(codeOK, "init")
	if strings.Count(again.out, ": exists\n") != 5 || again.err != "" {
		t.Errorf("the second time it said %s%s", again.out, again.err)
	}
	if after := s.value("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.slot); after != before {
		t.Errorf("the slot moved from %s to %s", before, after)
	}
	if got := s.value("SELECT confirmed::text || ' ' || clean FROM outbox_cdc_checkpoint WHERE slot = $1", s.slot); got != before+" true" {
		t.Errorf("the record says %s, want %s true", got, before)
	}
}

func TestInitFull(t *testing.T) {
	s := newShop(t)
	s.want(codeOK, "init --full")
	for _, column := range []string{"published_at", "retry_count", "status"} {
		s.value("SELECT count(" + column + ") FROM outbox_events")
	}
}

func TestInitCountsOlderRows(t *testing.T) {
	s := newShop(t)
	s.sql("CREATE TABLE outbox_events (event_id bigint, aggregate_type text, aggregate_id int, event_type text, payload json)")
	s.sql("INSERT INTO outbox_events SELECT i FROM generate_series(1, 17) i")
	s.want(codeOK, "init", `rows of table "public"."outbox_events" that are older than slot`, "and not published: 17\n")
}

func TestInitInterrupted(t *testing.T) {
	s := newShop(t)
	// A transaction that has written keeps the slot from being created.
	tx, err := s.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	pid := s.conn.PgConn().PID()
	s.want(codeBusy, "init --timeout 300ms", "--timeout 300ms", fmt.Sprintf("pid %d", pid))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.slots() != "0" {
		t.Error("a slot was left behind")
	}
	s.want(codeOK, "init", `publication  "outbox_cdc": exists`, "created at")
}

func TestInitNeverNarrowsAPublication(t *testing.T) {
	s := newShop(t)
	s.sql("CREATE TABLE other (id int)")
	s.sql("CREATE PUBLICATION outbox_cdc FOR TABLE other WITH (publish = 'update, delete')")
	s.want(codeOK, "init", "ADD TABLE")
	kinds := s.value("SELECT concat(pubinsert, pubupdate, pubdelete, pubtruncate) FROM pg_publication")
	tables := s.value("SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_publication_tables")
	if kinds != "tttf" || tables != "other outbox_events" {
		t.Errorf("got publication of %s for %s, want what it had, inserts, and the outbox", kinds, tables)
	}
}

func TestInitRefuses(t *testing.T) {
	s := newShop(t)
	s.sql("CREATE TABLE narrow (id uuid, aggregate_type text)")
	s.want(codeUsage, "init --table narrow", `table "public"."narrow" exists and has no column aggregate_id`)
	s.want(codeUsage, "init --table nowhere.outbox", `cannot create table "nowhere"."outbox"; create the schema first`)
	s.want(codeUsage, "init --role nobody_of_that_name", "create the role first, or correct --role")
	s.sql("SELECT pg_create_logical_replication_slot($1, 'test_decoding')", s.slot+"_2")
	s.want(codeUsage, "init --slot "+s.slot+"_2", "test_decoding")
}

func TestInitGrants(t *testing.T) {
	s := newShop(t)
	role := harness.Name(t)
	s.sql("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() {
		s.sqlAfter("DROP OWNED BY " + role)
		s.sqlAfter("DROP ROLE " + role)
	})
	s.want(codeOK, "init --role "+role, "granted", "has no REPLICATION attribute")
	for table, rights := range map[string]string{"outbox_events": "SELECT", "outbox_cdc_checkpoint": "SELECT, INSERT, UPDATE", "outbox_dead_letters": "SELECT, INSERT, UPDATE"} {
		for right := range strings.SplitSeq(rights, ", ") {
			if s.value("SELECT has_table_privilege($1, $2, $3)", role, table, right) != "true" {
				t.Errorf("the role has no %s on %s", right, table)
			}
		}
	}
}

func TestInitOfSeveralTables(t *testing.T) {
	s := newShop(t)
	role := harness.Name(t)
	s.sql("CREATE ROLE " + role)
	t.Cleanup(func() { s.sqlAfter("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	s.sql("CREATE SCHEMA billing")
	s.sql("CREATE TABLE billing.outbox (event_id bigint, aggregate_type text, aggregate_id int, event_type text, payload json)")
	s.sql("INSERT INTO billing.outbox VALUES (1)")
	s.want(codeOK, "init --table outbox_events,billing.outbox --role "+role,
		`"public"."outbox_events": created`, `"billing"."outbox": exists`, `"public"."outbox_cdc_checkpoint": created`,
		`rows of table "billing"."outbox" that are older than slot`, "not published: 1\n")
	for _, table := range []string{"outbox_events", "billing.outbox"} {
		if got := s.value("SELECT has_schema_privilege($1, 'billing', 'USAGE') AND has_table_privilege($1, $2, 'SELECT')", role, table); got != "true" {
			t.Errorf("role %s may not read table %s", role, table)
		}
	}
	if got := s.value("SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_publication_tables WHERE pubname = 'outbox_cdc'"); got != "outbox outbox_events" {
		t.Errorf("got the published tables %s", got)
	}
	printed := s.want(codeOK, "init --print-sql --table outbox_events,billing.outbox --role "+role).out
	for _, part := range []string{`CREATE TABLE IF NOT EXISTS "billing"."outbox"`, `FOR TABLE "public"."outbox_events", "billing"."outbox"`, `GRANT SELECT ON "billing"."outbox"`} {
		if !strings.Contains(printed, part) {
			t.Errorf("%s is not in\n%s", part, printed)
		}
	}
}

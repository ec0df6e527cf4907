//go:build linux || darwin

package integration

import (
	"fmt"
	"strings"
	"testing"
)

// TestSlotSurvivesDDL changes the table in every way that leaves it an outbox,
// while the relay is running and while it is down.
//
// Behaviours: S10
func TestSlotSurvivesDDL(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	changes := []string{
		"ALTER TABLE outbox_events ADD COLUMN NAME text",
		"ALTER TABLE outbox_events ALTER COLUMN NAME TYPE bytea USING NAME::bytea",
		"ALTER TABLE outbox_events ALTER COLUMN event_type TYPE varchar(100)",
		"ALTER TABLE outbox_events DROP COLUMN NAME",
		"ALTER TABLE outbox_events ALTER COLUMN event_type TYPE text",
		"ALTER TABLE outbox_events ALTER COLUMN id DROP DEFAULT, ALTER COLUMN id TYPE text, ALTER COLUMN payload TYPE json",
		"ALTER TABLE outbox_events ALTER COLUMN id TYPE uuid USING id::uuid, ALTER COLUMN payload TYPE jsonb",
		"CREATE INDEX ON outbox_events (created_at)",
		"VACUUM FULL outbox_events",
		"COMMENT ON TABLE outbox_events IS 'NAME'",
		"TRUNCATE outbox_events",
	}
	change := func(name string) {
		for _, sql := range changes {
			o.insert(2)
			o.exec(strings.ReplaceAll(sql, "NAME", name))
			// And within one transaction with rows on both sides.
			tx := o.begin()
			tx.insert(2)
			tx.exec("ALTER TABLE outbox_events ADD COLUMN between_rows int")
			tx.insert(2)
			tx.exec("ALTER TABLE outbox_events DROP COLUMN between_rows")
			tx.insert(1)
			tx.commit()
		}
	}
	change("while_running")
	o.awaitDrained()
	r.stop()
	change("while_down")
	r = o.start()
	o.awaitDrained()
	if sessions := len(r.log("session started")); sessions != 1 {
		t.Errorf("%d sessions instead of one:\n%s", sessions, r.Stderr())
	}
	o.verify()
}

// partitioned makes an outbox table of one partition.
var partitioned = outboxConfig{
	sql: `CREATE TABLE outbox_events (id uuid NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
		event_type text NOT NULL, payload jsonb, part int NOT NULL DEFAULT 0) PARTITION BY LIST (part);
		CREATE TABLE outbox_events_0 PARTITION OF outbox_events FOR VALUES IN (0)`,
	leaves: "public.outbox_events_",
}

// TestSlotSurvivesPartitions attaches and drops partitions of the table, while
// the relay is running and while it is down.
//
// Behaviours: S10, S15
func TestSlotSurvivesPartitions(t *testing.T) {
	o := newOutbox(t, partitioned)
	r := o.start()
	change := func(from int) {
		for part := from; part < from+3; part++ {
			o.insert(2)
			// A partition of its own making has its columns in another order.
			o.exec(fmt.Sprintf(`CREATE TABLE outbox_events_%[1]d (part int NOT NULL DEFAULT %[1]d, payload jsonb, event_type text NOT NULL,
				aggregate_id text NOT NULL, aggregate_type text NOT NULL, id uuid NOT NULL)`, part))
			o.exec(fmt.Sprintf("ALTER TABLE outbox_events ATTACH PARTITION outbox_events_%[1]d FOR VALUES IN (%[1]d)", part))
			o.exec(fmt.Sprintf("ALTER TABLE outbox_events ALTER COLUMN part SET DEFAULT %d", part))
			o.insert(2)
			o.exec(fmt.Sprintf("DROP TABLE outbox_events_%d", part-1))
			o.insert(2)
		}
	}
	change(1)
	o.awaitDrained()
	r.stop()
	change(4)
	o.start()
	o.awaitDrained()
	o.verify()
}

// TestSlotOfRowsThatMove updates rows so that they move to another partition of
// the table, which PostgreSQL reports like an INSERT: they are published again.
// An update that leaves them where they are publishes nothing.
//
// Behaviours: C6
func TestSlotOfRowsThatMove(t *testing.T) {
	o := newOutbox(t, partitioned)
	o.exec("CREATE TABLE outbox_events_1 PARTITION OF outbox_events FOR VALUES IN (1)")
	r := o.start()
	o.insert(20)
	o.awaitDrained()
	o.exec("UPDATE outbox_events SET event_type = 'changed'")
	o.awaitDrained()
	first := len(o.records())
	o.exec("UPDATE outbox_events SET part = 1")
	o.awaitDrained()
	r.stop()
	if second := len(o.records()); first != 20 || second != 40 {
		t.Errorf("the topics held %d records, and %d when the rows had moved, want 20 and 40", first, second)
	}
	o.verifyExcept(exceptions{duplicates: "rows moved to another partition of the table"})
}

// TestSlotOfQuotedNames uses names of schema, table and publication that need
// quotes in SQL.
//
// Behaviours: S16
func TestSlotOfQuotedNames(t *testing.T) {
	o := newOutbox(t, outboxConfig{
		sql:         `CREATE SCHEMA "My-App"`,
		table:       `"My-App"."OutBox Événements"`,
		publication: "MyPub",
	})
	r := o.start()
	o.insert(10)
	o.awaitDrained()
	r.stop()
	o.insertBatch(10)
	o.start()
	o.awaitDrained()
	o.verify()
}

// TestSlotSurvivesRewrites rewrites the table while rows of it are waiting in
// the write-ahead log.
//
// Behaviours: S24
func TestSlotSurvivesRewrites(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	r.stop()
	rows := many(5_000, 50_000)
	for _, rewrite := range []string{
		"VACUUM FULL outbox_events",
		"CLUSTER outbox_events USING outbox_events_pkey",
		"ALTER TABLE outbox_events ALTER COLUMN event_type TYPE varchar(64), ALTER COLUMN aggregate_id TYPE varchar(64)",
	} {
		for range 2 {
			tx := o.begin()
			tx.bulk(rows, 64)
			tx.commit()
			o.insert(20)
		}
		o.exec(rewrite)
	}
	o.insert(5)
	o.start()
	o.awaitDrained()
	o.verify()
}

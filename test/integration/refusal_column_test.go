//go:build linux || darwin

package integration

import (
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestRefusalOfADroppedColumn drops a column without which a row cannot be
// published, while the relay is down and while it runs. The relay stops instead
// of publishing half a row, and goes on when the column is back; rows that were
// written without it first have to be given up by a person.
//
// Behaviours: S11
func TestRefusalOfADroppedColumn(t *testing.T) {
	const (
		drop    = "ALTER TABLE outbox_events DROP COLUMN event_type"
		restore = "ALTER TABLE outbox_events ADD COLUMN event_type text NOT NULL DEFAULT 'created'"
	)
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	r.stop()

	o.insert(5)
	o.exec(drop)
	o.launch().expectExit(patience, exitUsage, `"outbox_events"`, "no column event_type", "add it to the table")
	o.exec(restore)
	o.insert(5)
	r = o.start()
	o.awaitDrained()

	o.exec(drop)
	number := o.ledger.take(1)
	o.exec("INSERT INTO outbox_events (id, aggregate_type, aggregate_id, payload) VALUES ($1, 'order', 'a1', '{}')", idOf(number))
	o.ledger.note(committed, number)
	behind := o.walEnd()
	r.expectExit(patience, exitUsage, `"outbox_events"`, "no column event_type", "outbox-cdc slot advance")
	o.exec(restore)
	o.insert(5)
	held := o.held()
	o.launch().expectExit(patience, exitUsage, `"outbox_events"`, "no column event_type", "outbox-cdc slot advance")
	if now := o.confirmed(); now >= behind {
		t.Errorf("the slot is confirmed up to %s, past the row that cannot be published in front of %s", now, behind)
	}
	if now := o.held(); now != held {
		t.Errorf("the topics hold %d records and markers, before %d", now, held)
	}

	if result := o.command("slot", "advance", "--to", behind.String(), "--yes"); result.Code != 0 {
		t.Fatalf("slot advance ended with %d: %s", result.Code, result.Stderr)
	}
	o.start()
	o.awaitDrained()
	if o.published(number) {
		t.Error("the row without the column is published")
	}
	o.verifyExcept(exceptions{moved: "a person has given the row up that cannot be published"})
}

// TestRefusalOfOneTableOfThree loses a column of one table and then another
// table, of three. The message names which, and to take it out of the list is
// enough.
//
// Behaviours: S25
func TestRefusalOfOneTableOfThree(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	for _, table := range []string{"billing", "shipping"} {
		o.exec("CREATE TABLE " + table + " (LIKE outbox_events INCLUDING ALL)")
		o.exec("ALTER PUBLICATION outbox_cdc ADD TABLE " + table)
	}
	elsewhere := o.topic("elsewhere") // not one that the oracle looks at
	if err := o.kafka.CreateTopic(t.Context(), elsewhere, harness.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	insert := func(table string) {
		o.exec("INSERT INTO " + table + " (aggregate_type, aggregate_id, event_type) VALUES ('elsewhere', 'a', 'created')")
	}
	tables := func(names string) []string { return []string{"--table", names} }

	r := o.start(tables("public.outbox_events,public.billing,public.shipping")...)
	o.insert(5)
	insert("billing")
	insert("shipping")
	o.awaitDrained()
	o.exec("ALTER TABLE shipping DROP COLUMN payload")
	insert("shipping")
	r.expectExit(patience, exitUsage, `"shipping"`, "no column payload")
	o.insert(5)
	o.launch(tables("public.outbox_events,public.billing,public.shipping")...).expectExit(patience, exitUsage, `"shipping"`, "no column payload")

	r = o.start(tables("public.outbox_events,public.billing")...)
	insert("billing")
	o.awaitDrained()
	r.stop()
	o.exec("DROP TABLE billing")
	o.insert(5)
	o.launch(tables("public.outbox_events,public.billing")...).expectExit(patience, exitGap, `"billing"`, "--table")

	o.start(tables("public.outbox_events")...)
	o.awaitDrained()
	records, err := o.kafka.ReadAll(t.Context(), elsewhere)
	if err != nil || len(records) != 3 {
		t.Errorf("%d records of the other tables (%v), want 3", len(records), err)
	}
	o.verify()
}

//go:build linux || darwin

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tablesFile writes a configuration file that lists tables and returns its path.
func tablesFile(t *testing.T, entries ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.yaml")
	writeTables(t, path, entries...)
	return path
}

func writeTables(t *testing.T, path string, entries ...string) {
	t.Helper()
	content := "tables:\n- " + strings.Join(entries, "\n- ") + "\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSlotOfTablesOfEveryKind has one slot for tables of different presets in
// several schemas, two of one name, with names that need quotes, and one with
// columns of its own. Transactions write to all of them; the relay is killed in
// between.
//
// Behaviours: S16
func TestSlotOfTablesOfEveryKind(t *testing.T) {
	o := bareOutbox(t, `CREATE SCHEMA "My-App"; CREATE SCHEMA a; CREATE SCHEMA b;
		CREATE TABLE b."Öffnung, ""x""" ("Größe" text, kind text NOT NULL, "Nr" int, zeile int, "select" json)`,
		"order", "outbox", "Kind")
	file := tablesFile(t, `{name: '"My-App"."OutBox Événements"', preset: debezium}`,
		`{name: a.outbox, preset: event_store}`, `{name: b.outbox, preset: outbox_messages}`,
		`{name: 'b."Öffnung, ""x"""', columns: {id: [Nr, zeile], aggregate_id: Größe, aggregate_type: kind, event_type: kind, payload: select}}`,
		`outbox_events`)
	o.mustCommand("init", "--config", file)
	if got := value[string](o, `SELECT string_agg(schemaname || '.' || tablename, ' ' ORDER BY 1) FROM pg_tables WHERE tablename LIKE 'outbox_cdc%'`); got != "My-App.outbox_cdc_checkpoint" {
		t.Errorf("the record is in %s, want it in the schema of the first table", got)
	}
	var want []event
	written := 0
	write := func() {
		written++
		uuid := func(kind int) string { return fmt.Sprintf("%08d-0000-0000-0000-%012d", kind, written) }
		o.exec(fmt.Sprintf(`INSERT INTO "My-App"."OutBox Événements" VALUES ('%[2]s', 'order', 'o-%[1]d', 'Placed', '{}');
			INSERT INTO a.outbox (stream_id, stream_version, event_type, event_data) VALUES ('s', %[1]d, 'Placed', '[1]');
			INSERT INTO b.outbox (id, event_type, aggregate_id, payload) VALUES ('%[3]s', 'Placed', 'm', '[2]');
			INSERT INTO b."Öffnung, ""x""" VALUES ('XL', 'Kind', %[1]d, 7, '{ "a":1 }');
			INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('%[4]s', 'order', 'e', 'Gone', 'null')`,
			written, uuid(1), uuid(2), uuid(3)))
		want = append(want,
			event{"order", fmt.Sprintf("o-%d", written), uuid(1), "Placed", "{}", nil},
			event{"outbox", "s", fmt.Sprintf("s/%d", written), "Placed", "[1]", nil},
			event{"outbox", "m", uuid(2), "Placed", "[2]", nil},
			event{"Kind", "XL", fmt.Sprintf("%d/7", written), "Kind", `{ "a":1 }`, nil},
			event{"order", "e", uuid(3), "Gone", "null", nil})
	}
	r := o.start("--config", file)
	for range 10 {
		write()
	}
	o.awaitRecords(3)
	r.kill()
	write()
	r = o.start("--config", file)
	write()
	o.awaitDrained()
	r.stop()
	o.expectEvents(want...)
}

// TestSlotOfTablesWithTheirOwnRouting has a table beside the default one whose
// events have a topic, a key and a partition of its own, and changes that while
// the relay is down.
func TestSlotOfTablesWithTheirOwnRouting(t *testing.T) {
	o := bareOutbox(t, `CREATE SCHEMA billing; CREATE TABLE billing.outbox (id text PRIMARY KEY, aggregate_type text NOT NULL,
		aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL, tenant text NOT NULL, shard int NOT NULL)`, "order", "Billed")
	file := tablesFile(t, "outbox_events", "{name: billing.outbox, topic: '"+o.topic("{event_type}")+"', key: aggregate_id, partition_by: 'column:tenant'}")
	o.mustCommand("init", "--config", file)
	type way struct {
		topic, key string
		partition  int
	}
	want := make(map[string]way) // by event id
	write := func(billed func(id, aggregate, tenant string, shard int) way) {
		for range 5 {
			n := len(want)
			id, aggregate, tenant, shard := fmt.Sprintf("b-%d", n), fmt.Sprintf("i-%d", n%3), fmt.Sprintf("tenant %d", n), n%4
			ordered := fmt.Sprintf("00000000-0000-0000-0000-%012d", n)
			o.exec(fmt.Sprintf(`INSERT INTO billing.outbox VALUES ('%s', 'invoice', '%s', 'Billed', '{}', '%s', %d);
				INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('%s', 'order', 'o-%[6]d', 'Placed', '{}')`,
				id, aggregate, tenant, shard, ordered, n))
			want[id] = billed(id, aggregate, tenant, shard)
			want[ordered] = way{o.topic("order"), ordered, javaPartition(fmt.Sprintf("o-%d", n), o.config.partitions)}
		}
	}
	byTenant := func(_, aggregate, tenant string, _ int) way {
		return way{o.topic("Billed"), aggregate, javaPartition(tenant, o.config.partitions)}
	}
	r := o.start("--config", file)
	write(byTenant)
	o.awaitRecords(3)
	r.kill()
	write(byTenant)
	r = o.start("--config", file)
	o.awaitDrained()
	r.stop()
	writeTables(t, file, "outbox_events", "{name: billing.outbox, topic: "+o.topic("order")+", partition_by: 'number:shard'}")
	write(func(id, _, _ string, shard int) way { return way{o.topic("order"), id, shard} })
	r = o.start("--config", file)
	o.awaitDrained()
	r.stop()
	records := o.records()
	if len(records) != len(want) {
		t.Errorf("the topics hold %d records, want %d", len(records), len(want))
	}
	for _, record := range records {
		id := header(t, record, "event_id")
		if got := (way{record.Topic, string(record.Key), int(record.Partition)}); got != want[id] {
			t.Errorf("event %s went %v, want %v", id, got, want[id])
		}
	}
}

// TestSlotSurvivesDDLOfAnEventStore changes an event store in partitions in
// every way that leaves it one, while the relay is running and while it is
// down. What is no column of the mapping may go or change its name; partitions
// may be split, attached and dropped.
//
// Behaviours: S10
func TestSlotSurvivesDDLOfAnEventStore(t *testing.T) {
	flags := []string{"--preset", "event_store"}
	o := bareOutbox(t, "", "event_store")
	o.mustCommand(append([]string{"init", "--partitions", "2"}, flags...)...)
	r := o.start(flags...)
	var want []event
	metadata := `{"by": "u"}`
	write := func(headers map[string]string) {
		stream, version := fmt.Sprintf("s-%d", len(want)%3), len(want)/3+1
		o.exec("INSERT INTO event_store (stream_id, stream_version, event_type, event_data) VALUES ($1, $2, 'Placed', '{}')", stream, version)
		want = append(want, event{"event_store", stream, fmt.Sprintf("%s/%d", stream, version), "Placed", "{}", headers})
	}
	by := map[string]string{"by": "u"}
	change := func() {
		for _, step := range []struct {
			sql     string
			headers map[string]string
		}{
			{"ALTER TABLE event_store ADD COLUMN extra text DEFAULT 'x'", nil},
			{"ALTER TABLE event_store RENAME COLUMN extra TO other", nil},
			{"ALTER TABLE event_store ALTER COLUMN other TYPE varchar(9), ALTER COLUMN stream_version TYPE numeric, ALTER COLUMN event_data TYPE json", nil},
			{"ALTER TABLE event_store ALTER COLUMN metadata SET DEFAULT '" + metadata + "'", by},
			{"ALTER TABLE event_store RENAME COLUMN metadata TO context", nil},
			{"ALTER TABLE event_store RENAME COLUMN context TO metadata", by},
			{"ALTER TABLE event_store DROP COLUMN metadata, DROP COLUMN other", nil},
			{"ALTER TABLE event_store ADD COLUMN metadata jsonb", nil},
			{"ALTER TABLE event_store ALTER COLUMN stream_version TYPE bigint, ALTER COLUMN event_data TYPE jsonb", nil},
			{`ALTER TABLE event_store DETACH PARTITION event_store_p1;
				CREATE TABLE event_store_new PARTITION OF event_store FOR VALUES WITH (MODULUS 4, REMAINDER 1);
				CREATE TABLE event_store_newer PARTITION OF event_store FOR VALUES WITH (MODULUS 4, REMAINDER 3);
				DROP TABLE event_store_p1`, nil},
			{`ALTER TABLE event_store DETACH PARTITION event_store_new; ALTER TABLE event_store DETACH PARTITION event_store_newer;
				DROP TABLE event_store_new, event_store_newer;
				CREATE TABLE event_store_p1 PARTITION OF event_store FOR VALUES WITH (MODULUS 2, REMAINDER 1)`, nil},
		} {
			o.exec(step.sql)
			for range 3 {
				write(step.headers)
			}
		}
	}
	change()
	o.awaitDrained()
	r.stop()
	change()
	r = o.start(flags...)
	o.awaitDrained()
	r.stop()
	o.expectEvents(want...)
}

// TestRefusalOfColumnsThatAreNotThere names columns that a table lacks, and
// takes one away that is there, while the relay is down and while it runs. It is
// told where the column is named, nothing is published in halves, and a column
// that was renamed needs no more than to be said so.
//
// Behaviours: S11
func TestRefusalOfColumnsThatAreNotThere(t *testing.T) {
	o := bareOutbox(t, "CREATE TABLE q (nr bigint, customer int, kind text, body jsonb)", "q")
	file := tablesFile(t, "name: q", "{name: other, preset: debezium}")
	path := func(line int) string { return fmt.Sprintf("%s:%d", file, line) }
	expect := func(texts ...string) {
		t.Helper()
		expectFailure(t, o.command("init", "--config", file), exitUsage, texts...)
	}
	expect(`table "public"."q" exists and has no column event_id or id, no column aggregate_type`, "correct "+path(2))
	writeTables(t, file, "{name: q, columns: {id: nr, aggregate_id: customer, event_type: kind, payload: Body}}")
	expect(`table "public"."q" exists and has no column Body; add it, or correct ` + path(2))
	writeTables(t, file, "{name: nowhere, columns: {id: nr}}")
	expect(`table "public"."nowhere" does not exist`, "create it first, or correct "+path(2))

	right := "{name: q, columns: {id: nr, aggregate_id: customer, event_type: kind, payload: body}}"
	writeTables(t, file, right)
	o.mustCommand("init", "--config", file)
	write := func(nr int, body string) {
		o.exec(fmt.Sprintf("INSERT INTO q (nr, customer, kind, %s) VALUES (%d, 7, 'Placed', '{}')", body, nr))
	}
	refuse := func(texts ...string) {
		t.Helper()
		o.launch("--config", file).expectExit(patience, exitUsage, texts...)
	}
	writeTables(t, file, strings.ReplaceAll(right, "body", "boody"))
	refuse(`table "public"."q" has no column boody; add it to the table, or correct ` + path(2))
	writeTables(t, file, right)
	o.launch("--preset", "debezium", "--table", "q").expectExit(patience, exitUsage, `has no column id, no column aggregatetype`, "or correct --preset debezium")

	r := o.start("--config", file)
	write(1, "body")
	o.awaitDrained() // what "renamed" says is part of the origin: nothing may be on its way
	o.exec("ALTER TABLE q RENAME COLUMN body TO content")
	write(2, "content")
	r.expectExit(patience, exitUsage, `table "public"."q" had no column body when the next rows were written; if it was renamed, say so under "renamed"`)
	refuse(`table "public"."q" has no column body`, "or correct "+path(2))

	// Rows from before and after wait in the write-ahead log at once.
	o.exec("ALTER TABLE q RENAME COLUMN content TO body")
	write(3, "body")
	o.exec("ALTER TABLE q RENAME COLUMN body TO content")
	writeTables(t, file, strings.TrimSuffix(right, "}")+", renamed: {body: content, customer: client}}")
	r = o.start("--config", file)
	write(4, "content")
	o.exec("ALTER TABLE q RENAME COLUMN customer TO client")
	o.exec("INSERT INTO q (nr, client, kind, content) VALUES (5, 7, 'Placed', '{}')")
	o.awaitDrained()
	r.stop()
	var want []event
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		want = append(want, event{"q", "7", id, "Placed", "{}", nil})
	}
	o.expectEvents(want...)
}

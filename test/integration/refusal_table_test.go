//go:build linux || darwin

package integration

// tableRefusals are publications and tables that the relay cannot stream.
var tableRefusals = []refusal{
	{
		name:  "publication missing",
		flags: args("--publication", "other"),
		code:  exitUsage, texts: []string{`"other"`, "outbox-cdc publication create --publication other"},
	},
	{
		name:  "publication dropped",
		spoil: []string{"DROP PUBLICATION outbox_cdc"},
		code:  exitUsage, texts: []string{`"outbox_cdc"`, "outbox-cdc publication create"},
		restore: []string{"CREATE PUBLICATION outbox_cdc FOR TABLE outbox_events WITH (publish = 'insert', publish_via_partition_root = true)"},
	},
	{
		name:  "publication without inserts",
		spoil: []string{"ALTER PUBLICATION outbox_cdc SET (publish = 'update')"},
		code:  exitUsage, texts: []string{`"outbox_cdc"`, `ALTER PUBLICATION "outbox_cdc" SET (publish = 'insert, update')`},
		restore: []string{"ALTER PUBLICATION outbox_cdc SET (publish = 'insert')"},
	},
	{
		name:  "publication without the table",
		spoil: []string{"ALTER PUBLICATION outbox_cdc DROP TABLE outbox_events"},
		code:  exitUsage, texts: []string{`"outbox_events"`, "outbox-cdc publication create"},
		restore: []string{"ALTER PUBLICATION outbox_cdc ADD TABLE outbox_events"},
	},
	{
		name:  "table missing",
		flags: args("--table", "public.other"),
		code:  exitUsage, texts: []string{`"other"`, "outbox-cdc init", "--table"},
	},
	{
		name:  "column missing",
		spoil: []string{"ALTER TABLE outbox_events RENAME COLUMN payload TO body"},
		code:  exitUsage, texts: []string{`"outbox_events"`, "no column payload", "add it"},
		restore: []string{"ALTER TABLE outbox_events RENAME COLUMN body TO payload"},
	},
	{
		name:  "view",
		spoil: []string{"CREATE VIEW view AS SELECT * FROM outbox_events"},
		flags: args("--table", "public.view"),
		code:  exitUsage, texts: []string{`"public"."view" is not a table`, "--table"},
		restore: []string{"DROP VIEW view"},
	},
	{
		name:  "table without write-ahead log",
		spoil: []string{"CREATE UNLOGGED TABLE unlogged (LIKE outbox_events)"},
		flags: args("--table", "public.unlogged"),
		code:  exitUsage, texts: []string{`"unlogged" is unlogged`, "SET LOGGED"},
		restore: []string{"DROP TABLE unlogged"},
	},
	{
		name:  "table for dead letters missing",
		spoil: []string{"ALTER TABLE outbox_dead_letters RENAME TO elsewhere"},
		code:  exitUsage, texts: []string{"outbox_dead_letters", "outbox-cdc init", "--on-poison halt"},
		restore: []string{"ALTER TABLE elsewhere RENAME TO outbox_dead_letters"},
	},
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
	"github.com/outbox-cdc/outbox-cdc/sql"
)

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name:  "init",
		Usage: "create table, support tables, publication and slot",
		Description: "Creates what is missing, in the safe order: the table, the support tables, the publication, and the slot last. " +
			"What exists is left as it is, so it can be run again. Rows committed before the slot exists are not published.",
		UsageText: "outbox-cdc init --dsn postgres://owner@db/shop --role relay",
		Flags:     flags("print-sql", "full", "role", "failover", "timeout", "dsn", "slot", "publication", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			in := &initialization{
				full: c.Bool("full"), role: c.String("role"),
				slotOptions: replication.CreateSlotOptions{Failover: c.Bool("failover"), Timeout: s.duration("timeout")},
			}
			if c.Bool("print-sql") {
				return p.printSQL(&s, in)
			}
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				in.database = d
				return in.run(ctx)
			})
		},
	}
}

// initialization is one run of init.
type initialization struct {
	*database
	full        bool
	role        string // empty: no grants
	slotOptions replication.CreateSlotOptions
}

// run goes through the steps in an order in which an interruption leaves
// nothing behind that loses rows: a slot that is older than its publication
// cannot decode what was written between the two.
func (in *initialization) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		in.checkWALLevel, in.createTables, in.createPublication, in.createSlot, in.grant, in.check,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkWALLevel comes first: without it nothing else is of use.
func (in *initialization) checkWALLevel(ctx context.Context) error {
	var level string
	err := in.conn.QueryRow(ctx, "SHOW wal_level").Scan(&level)
	if err != nil {
		return fmt.Errorf("read wal_level: %w", err)
	}
	if level != "logical" {
		return &replication.Fault{Kind: replication.ErrSetup,
			Message: fmt.Sprintf("wal_level is %s, it must be logical: ALTER SYSTEM SET wal_level = logical, then restart the server", level)}
	}
	return nil
}

// outbox names the tables for the DDL.
func (in *initialization) outbox() sql.Outbox {
	return sql.Outbox{Schema: in.Tables[0].Schema, Name: in.Tables[0].Name, Role: in.role, Database: in.conn.Config().Database}
}

func (in *initialization) createTables(ctx context.Context) error {
	o := in.outbox()
	for _, t := range []struct{ schema, name, ddl string }{
		{o.Schema, o.Name, o.Table(in.full)},
		{o.Schema, sql.CheckpointTable, o.Checkpoint()},
		{o.Schema, sql.DeadLettersTable, o.DeadLetters()},
	} {
		if err := in.createTable(ctx, sql.Qualified(t.schema, t.name), t.ddl); err != nil {
			return err
		}
	}
	return in.checkColumns(ctx)
}

// createTable looks first: IF NOT EXISTS asks for the right to create a table
// even where there is nothing to create.
func (in *initialization) createTable(ctx context.Context, name, ddl string) error {
	var exists bool
	if err := in.conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&exists); err != nil {
		return setupFault("look up table "+name, err)
	}
	if exists {
		in.step("table", name, "exists")
		return nil
	}
	if _, err := in.conn.Exec(ctx, ddl); err != nil {
		return setupFault("create table "+name, err)
	}
	in.step("table", name, "created")
	return nil
}

// checkColumns refuses an outbox table that exists and lacks what run needs.
func (in *initialization) checkColumns(ctx context.Context) error {
	t := in.Tables[0]
	rows, err := in.conn.Query(ctx, "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped", t.String())
	if err != nil {
		return fmt.Errorf("read the columns of table %s: %w", t, err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read the columns of table %s: %w", t, err)
	}
	if missing := t.MissingColumns(columns); len(missing) > 0 {
		return &replication.Fault{Kind: replication.ErrSetup,
			Message: fmt.Sprintf("table %s exists and has no column %s; add it, or name another table with --table", t, strings.Join(missing, ", no column "))}
	}
	return nil
}

func (in *initialization) createPublication(ctx context.Context) error {
	done, err := replication.CreatePublication(ctx, in.conn, in.Publication, in.Tables)
	if err != nil {
		return err
	}
	name := pgx.Identifier{in.Publication}.Sanitize()
	if len(done) == 0 {
		in.step("publication", name, "exists")
		return nil
	}
	for _, statement := range done {
		in.step("publication", name, statement)
	}
	if slot, err := in.findSlot(ctx); err != nil || slot == nil {
		return err
	}
	in.p.note(fmt.Sprintf("slot %q is older than this change of the publication: rows committed before it are not published, "+
		"and PostgreSQL may refuse to decode them; if run says so, drop the slot and run init again", in.Slot))
	return nil
}

func (in *initialization) createSlot(ctx context.Context) error {
	slot, err := in.findSlot(ctx)
	if err != nil {
		return err
	}
	record, err := in.record(ctx)
	if err != nil {
		return err
	}
	if slot != nil {
		in.step("slot", in.Slot, "exists")
		if record != nil {
			return nil
		}
		return in.accept(ctx, *slot, false)
	}
	var older int64
	if err := in.conn.QueryRow(ctx, "SELECT count(*) FROM "+in.Tables[0].String()).Scan(&older); err != nil {
		return fmt.Errorf("count the rows of table %s: %w", in.Tables[0], err)
	}
	created, err := replication.CreateSlot(ctx, in.conn, in.Slot, in.slotOptions)
	if err != nil {
		return err
	}
	in.step("slot", in.Slot, "created at "+created.Confirmed.String())
	if older > 0 {
		in.p.note(fmt.Sprintf("%d rows of table %s are older than slot %q; they are not published", older, in.Tables[0], in.Slot))
	}
	if record != nil {
		in.p.note(fmt.Sprintf("slot %q existed before and had confirmed %s; rows committed between that and %s are not published",
			in.Slot, record.Confirmed, created.Confirmed))
	}
	return in.accept(ctx, created, true)
}

// grant gives the role what run needs.
func (in *initialization) grant(ctx context.Context) error {
	if in.role == "" {
		return nil
	}
	if _, err := in.conn.Exec(ctx, in.outbox().Grants()); err != nil {
		return setupFault("grant rights to role "+pgx.Identifier{in.role}.Sanitize(), err)
	}
	in.step("role", pgx.Identifier{in.role}.Sanitize(), "granted")
	var may bool
	if err := in.conn.QueryRow(ctx, "SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = $1", in.role).Scan(&may); err != nil {
		return fmt.Errorf("look up role %q: %w", in.role, err)
	}
	if !may {
		in.p.note(fmt.Sprintf("role %q has no REPLICATION attribute, which run needs; as a superuser: ALTER ROLE %s REPLICATION",
			in.role, pgx.Identifier{in.role}.Sanitize()))
	}
	return nil
}

// check looks at the result as run does: what existed before may not be fit for
// it. The role that runs init need not be allowed to stream.
func (in *initialization) check(ctx context.Context) error {
	server, err := replication.Preflight(ctx, in.Config)
	if errors.Is(err, replication.ErrDenied) {
		in.p.note("everything is in place, but could not be checked as run does: " + oneLine(err.Error()))
		return nil
	}
	for _, warning := range server.Warnings {
		in.p.note(warning)
	}
	return err
}

// step tells what became of one thing.
func (in *initialization) step(kind, name, outcome string) {
	fmt.Fprintf(in.p.out, "%-12s %s: %s\n", kind, name, outcome)
}

// printSQL prints what init would execute on an empty database.
func (p *program) printSQL(s *settings, in *initialization) error {
	cfg := s.database()
	if err := s.err(cfg.Validate()); err != nil {
		return err
	}
	parsed, err := pgx.ParseConfig(cfg.DSN)
	if err != nil {
		return usage("--dsn cannot be parsed") // it was, a moment ago
	}
	t := cfg.Tables[0]
	o := sql.Outbox{Schema: t.Schema, Name: t.Name, Role: in.role, Database: parsed.Database}
	create := fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput');\n", cfg.Slot)
	if in.slotOptions.Failover {
		create = fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput', failover => true);\n", cfg.Slot)
	}
	parts := []string{
		o.Table(in.full), o.Checkpoint(), o.DeadLetters(),
		"-- The publication comes before the slot: rows written before it cannot be decoded.\n" +
			replication.PublicationSQL(cfg.Publication, cfg.Tables) + ";\n",
		"-- From here on rows are kept for run.\n" + create,
	}
	if in.role != "" {
		parts = append(parts, o.Grants())
	}
	fmt.Fprint(p.out, strings.Join(parts, "\n"))
	return nil
}

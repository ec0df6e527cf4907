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
		Flags:     flags("print-sql", "full", "id-type", "partitions", "role", "failover", "timeout", "o", "dsn", "slot", "publication", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			in := &initialization{
				outboxes: s.outboxes(), form: s.form(), role: c.String("role"),
				slotOptions: replication.CreateSlotOptions{Failover: c.Bool("failover"), Timeout: s.duration("timeout")},
			}
			s.together("print-sql", "timeout")
			if c.Bool("print-sql") {
				return p.printSQL(c, &s, in)
			}
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				in.database, in.asJSON = d, c.String("o") == "json"
				err := in.run(ctx)
				if unsaid := in.report(c); err == nil {
					err = unsaid
				}
				return err
			})
		},
	}
}

// initialization is one run of init.
type initialization struct {
	*database
	outboxes    []outboxTable
	form        sql.Form // of the tables that are created, but for the preset
	role        string   // empty: no grants
	slotOptions replication.CreateSlotOptions
	// steps are printed as they are done, or at the end as JSON.
	steps  []initStep
	asJSON bool
}

// initStep is what became of one thing.
type initStep struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
}

// run goes through the steps in an order in which an interruption leaves
// nothing behind that loses rows: a slot that is older than its publication
// cannot decode what was written between the two.
func (in *initialization) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		in.checkServer, in.createTables, in.createPublication, in.createSlot, in.grant, in.check,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkServer comes first: on a standby, or without logical WAL, nothing else is
// of use.
func (in *initialization) checkServer(ctx context.Context) error {
	if err := replication.CheckPrimary(ctx, in.conn); err != nil {
		return err
	}
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

// check looks at the result as run does: what existed before may not be fit for
// it. The role that runs init need not be allowed to stream.
func (in *initialization) check(ctx context.Context) error {
	server, err := replication.Preflight(ctx, in.Config)
	if errors.Is(err, replication.ErrDenied) {
		in.note("everything is in place, but could not be checked as run does: " + oneLine(err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	defer server.Close()
	for _, warning := range server.Warnings {
		in.note(warning)
	}
	return nil
}

// step tells what became of one thing.
func (in *initialization) step(kind, name, outcome string) {
	in.steps = append(in.steps, initStep{kind, name, outcome})
	if !in.asJSON {
		fmt.Fprintf(in.p.out, "%-12s %s: %s\n", kind, name, outcome)
	}
}

// report prints what was done as JSON, also after an error: it was done.
func (in *initialization) report(c *cli.Context) error {
	return in.p.print(c, struct {
		Steps []initStep `json:"steps"`
		Notes []string   `json:"notes,omitempty"`
	}{append([]initStep{}, in.steps...), in.notes}, func() {})
}

// printSQL prints what init would execute on an empty database.
func (p *program) printSQL(c *cli.Context, s *settings, in *initialization) error {
	cfg := s.database()
	if err := s.err(cfg.Validate()); err != nil {
		return err
	}
	parsed, err := pgx.ParseConfig(cfg.DSN)
	if err != nil {
		return usage("--dsn cannot be parsed") // it was, a moment ago
	}
	parts := tableDDL(in.outboxes, in.form)
	o := supportOf(cfg.Tables)
	o.Role, o.Database = in.role, parsed.Database
	create := fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput');\n", cfg.Slot)
	if in.slotOptions.Failover {
		create = fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput', failover => true);\n", cfg.Slot)
	}
	parts = append(parts,
		o.Checkpoint(), o.DeadLetters(),
		"-- The publication comes before the slot: rows written before it cannot be decoded.\n"+
			replication.PublicationSQL(cfg.Publication, cfg.Tables)+";\n",
		"-- From here on rows are kept for run.\n"+create,
	)
	if in.role != "" {
		parts = append(parts, grants(o, cfg.Tables))
	}
	return p.print(c, map[string][]string{"sql": parts}, func() { fmt.Fprint(p.out, strings.Join(parts, "\n")) })
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// database is an ordinary connection and what a command was told about it.
type database struct {
	replication.Config
	conn *pgx.Conn
	p    *program
	// said is what was said about the record already.
	said bool
	// notes are all remarks to the person at the terminal.
	notes []string
}

// withDatabase runs do with a connection to the server that the flags name.
func (p *program) withDatabase(c *cli.Context, s *settings, do func(context.Context, *database) error) error {
	cfg := s.database()
	if err := s.err(cfg.Validate()); err != nil {
		return err
	}
	warnConfiguration(c, p.note)
	conn, err := cfg.Connect(c.Context)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(c.Context))
	return do(c.Context, &database{Config: cfg, conn: conn, p: p})
}

// note writes a remark to the person at the terminal.
func (p *program) note(line string) { fmt.Fprintf(p.err, "outbox-cdc: %s\n", line) }

// note is program.note, and is remembered.
func (d *database) note(line string) {
	d.notes = append(d.notes, line)
	d.p.note(line)
}

// schema is where the support tables are.
func (d *database) schema() string { return supportOf(d.Tables).Schema }

// accept writes the slot's position into its record, so that run does not take
// it for the work of somebody else.
func (d *database) accept(ctx context.Context, slot replication.Slot, created bool) error {
	err := checkpoint.Accept(ctx, d.conn, d.schema(), slot.Name, slot.Confirmed, created)
	return d.unlessUnavailable(err)
}

// record reads the record of the slot; nil if there is none.
func (d *database) record(ctx context.Context) (*checkpoint.Record, error) {
	record, err := checkpoint.Load(ctx, d.conn, d.schema(), d.Slot)
	return record, d.unlessUnavailable(err)
}

// unlessUnavailable says that there is no gap detection, which is no reason to
// fail.
func (d *database) unlessUnavailable(err error) error {
	if !errors.Is(err, checkpoint.ErrUnavailable) {
		return err
	}
	if !d.said {
		d.note(oneLine(err.Error()))
	}
	d.said = true
	return nil
}

// findSlot returns the state of the slot, nil if it does not exist.
func (d *database) findSlot(ctx context.Context) (*replication.Slot, error) {
	slots, err := replication.ListSlots(ctx, d.conn)
	if err != nil {
		return nil, err
	}
	for _, s := range slots {
		if s.Name == d.Slot {
			return &s, nil
		}
	}
	return nil, nil
}

// setupFault gives the errors of DDL a kind and a remedy.
func setupFault(what string, err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return fmt.Errorf("%s: %w", what, err)
	}
	f := &replication.Fault{Kind: replication.ErrSetup, Message: "cannot " + what, Cause: err}
	switch refused.Code {
	case "42501":
		f.Kind = replication.ErrDenied
		f.Message += "; it takes the owner of the database, or CREATE on the schema"
	case "3F000":
		f.Message += "; create the schema first, or correct the name of the table"
	case "42704":
		f.Message += "; create the role first, or correct --role"
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return f
}

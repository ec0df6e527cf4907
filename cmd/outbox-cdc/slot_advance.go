package main

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

func (p *program) slotAdvanceCommand() *cli.Command {
	return &cli.Command{
		Name:  "advance",
		Usage: "move the slot forward, past rows that are given up",
		Description: "Rows committed between the slot's position and the new one are never published. " +
			"With the slot's own position as --to, this accepts a position that run refuses.",
		UsageText: "outbox-cdc slot advance --slot orders --to 16/B374D848 --yes",
		Flags:     flags("to", "yes", "o", "dsn", "slot", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			to := s.target()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				return d.advanceSlot(ctx, c, to)
			})
		},
	}
}

// target reads --to; 0 is the end of the write-ahead log.
func (s *settings) target() pglogrepl.LSN {
	value := s.c.String("to")
	if value == "now" {
		return 0
	}
	lsn, err := pglogrepl.ParseLSN(value)
	if err != nil || lsn == 0 {
		s.fault("--to must be an LSN such as 16/B374D848, or now, got %q", value)
	}
	return lsn
}

// advance is what slot advance did.
type advance struct {
	Slot string  `json:"slot"`
	From lsnText `json:"from"`
	To   lsnText `json:"to"`
}

func (d *database) advanceSlot(ctx context.Context, c *cli.Context, to pglogrepl.LSN) error {
	slot, err := replication.ShowSlot(ctx, d.conn, d.Slot)
	if err != nil {
		return err
	}
	where := to.String()
	if to == 0 {
		where = "the end of the write-ahead log"
	}
	if err := d.p.confirm(c, fmt.Sprintf("rows committed between %s and %s will never be published through slot %q", slot.Confirmed, where, slot.Name)); err != nil {
		return err
	}
	from, reached, err := replication.AdvanceSlot(ctx, d.conn, d.Slot, to)
	if err != nil {
		return err
	}
	slot.Confirmed = reached
	if err := d.accept(ctx, slot, false); err != nil {
		return err
	}
	return d.p.print(c, advance{slot.Name, lsnText(from), lsnText(reached)}, func() {
		fmt.Fprintf(d.p.out, "slot %s moved from %s to %s\n", slot.Name, from, reached)
	})
}

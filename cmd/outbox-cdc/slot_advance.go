package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

// countTimeout is how long the rows to skip are counted.
const countTimeout = 5 * time.Second

func (p *program) slotAdvanceCommand() *cli.Command {
	return &cli.Command{
		Name:  "advance",
		Usage: "move the slot forward, past rows that are given up",
		Description: "Rows and messages committed between the slot's position and the new one are never published. Says how many they are, " +
			"as far as five seconds are enough to count them, before anything is changed. " +
			"With the slot's own position as --to, this accepts a position that run refuses.",
		UsageText: "outbox-cdc slot advance --slot orders --to 16/B374D848 --yes",
		Flags:     flags("to", "yes", "o", "dsn", "slot", "publication", "table"),
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
	// Rows are those given up: null if they could not be counted, and a lower
	// bound if RowsComplete is false.
	Rows         *int64                     `json:"rows"`
	RowsComplete bool                       `json:"rows_complete"`
	Messages     *int64                     `json:"messages,omitempty"`    // the same of logical messages, if they are published
	NotCounted   string                     `json:"not_counted,omitempty"` // why, if they are not complete
	Tables       []replication.SkippedTable `json:"tables"`
}

func (d *database) advanceSlot(ctx context.Context, c *cli.Context, to pglogrepl.LSN) error {
	slot, to, err := replication.AdvanceTarget(ctx, d.conn, d.Slot, to)
	if err != nil {
		return err
	}
	skipped, err := replication.CountSkipped(ctx, d.conn, d.Config, slot, to, countTimeout)
	if err != nil {
		return err
	}
	if err := d.p.confirm(c, skipping(slot, to, skipped)); err != nil {
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
	done := advance{
		Slot: slot.Name, From: lsnText(from), To: lsnText(reached),
		RowsComplete: skipped.Complete, NotCounted: skipped.Reason, Tables: append([]replication.SkippedTable{}, skipped.Tables...),
	}
	if rows := skipped.Rows(); skipped.Complete || rows+skipped.Messages > 0 {
		done.Rows = &rows
		if d.MessagePrefix != "" {
			done.Messages = &skipped.Messages
		}
	}
	return d.p.print(c, done, func() {
		fmt.Fprintf(d.p.out, "slot %s moved from %s to %s, past %s\n", slot.Name, from, reached, amount(skipped))
	})
}

// skipping says what advancing a slot means.
func skipping(slot replication.Slot, to pglogrepl.LSN, skipped replication.Skipped) string {
	return fmt.Sprintf("what was committed between %s and %s will never be published through slot %q: %s",
		slot.Confirmed, to, slot.Name, amount(skipped))
}

// amount says how many rows and messages are skipped, as far as that is known.
func amount(s replication.Skipped) string {
	rows := s.Rows()
	switch {
	case s.Complete && rows+s.Messages == 0:
		return "no row"
	case !s.Complete && rows+s.Messages == 0:
		return "rows that were not counted: " + s.Reason
	}
	var counted []string
	if rows > 0 {
		tables := make([]string, len(s.Tables))
		for i, t := range s.Tables {
			tables[i] = fmt.Sprintf("%d of table %s", t.Rows, t.Table)
		}
		counted = append(counted, fmt.Sprintf("%s (%s)", rowCount(rows), strings.Join(tables, ", ")))
	}
	if s.Messages > 0 {
		counted = append(counted, messageCount(s.Messages))
	}
	text := strings.Join(counted, " and ")
	if !s.Complete {
		text = "more than " + text + "; " + s.Reason
	}
	return text
}

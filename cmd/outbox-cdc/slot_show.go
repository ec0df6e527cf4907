package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

func (p *program) slotShowCommand() *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "show the slot: position, lag, what it retains, who holds it",
		Description: aboutLag,
		UsageText:   "outbox-cdc slot show --slot orders -o json",
		Flags:       flags("o", "dsn", "slot", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				v, err := d.readSlot(ctx)
				if err != nil {
					return err
				}
				return p.print(c, v, func() { p.printSlot(v) })
			})
		},
	}
}

// readSlot returns the slot.
func (d *database) readSlot(ctx context.Context) (slotJSON, error) {
	slot, remarks, err := replication.InspectSlot(ctx, d.conn, d.Slot)
	if err != nil {
		return slotJSON{}, err
	}
	for _, remark := range remarks {
		d.note(remark)
	}
	records, err := d.records(ctx)
	if err != nil {
		return slotJSON{}, err
	}
	return recordedSlot(slot, ownRecord(slot, records)), nil
}

// printSlot writes all that is known of a slot, one thing a line.
func (p *program) printSlot(v slotJSON) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, value) }
	line("SLOT", v.Name)
	line("KIND", v.kind())
	line("DATABASE", cell(v.Database))
	line("CONFIRMED", v.Confirmed.String())
	line("LAG", sizeOrDash(v.LagBytes))
	line("LAG TIME", v.lag.String())
	line("RETAINED", fmt.Sprintf("%s, from %s", sizeOrDash(v.RetainedBytes), v.Restart))
	line("SAFE", v.safe())
	line("WAL", v.walStatus())
	line("HOLDER", v.holder())
	if v.ActivePID == 0 && v.InactiveSince != nil {
		line("INACTIVE", "since "+timeAgo(*v.InactiveSince, v.ServerTime))
	}
	if v.Record != nil && v.Record.LastEvent != nil {
		line("LAST EVENT", timeAgo(*v.Record.LastEvent, v.ServerTime))
	}
	w.Flush()
}

// kind is the slot's plugin or type, and what else makes it special.
func (v slotJSON) kind() string {
	kind := []string{v.Type}
	if v.Plugin != "" {
		kind[0] = v.Plugin
	}
	for _, k := range []struct {
		name string
		on   bool
	}{{"temporary", v.Temporary}, {"two_phase", v.TwoPhase}, {"failover", v.Failover}, {"synced", v.Synced}} {
		if k.on {
			kind = append(kind, k.name)
		}
	}
	return strings.Join(kind, ", ")
}

func (v slotJSON) walStatus() string {
	if v.InvalidationReason != "" {
		return v.WALStatus + ", " + v.InvalidationReason
	}
	return cell(v.WALStatus)
}

// timeAgo writes a time and how long ago it was.
func timeAgo(at, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", at.UTC().Format(time.RFC3339), ageOf(max(now.Sub(at), 0)))
}

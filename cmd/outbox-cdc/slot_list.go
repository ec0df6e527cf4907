package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

// aboutLag says what the columns of a list of slots mean.
const aboutLag = "LAG is what the slot has not confirmed, RETAINED what the server keeps for it, SAFE how much more it keeps before it gives the slot up. " +
	"LAG TIME is how old the oldest change is that is not confirmed: exact while the reader has caught up; " +
	"more than (>) the time for which nobody has read the slot, on PostgreSQL 17 and later; " +
	"less than (<) the age of the last event that our record knows to be confirmed; and - if none of these is known."

func (p *program) slotListCommand() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "list all slots of the server, with what each retains",
		Description: "Shows the slots of others too: each of them can fill the disk. " + aboutLag,
		UsageText:   "outbox-cdc slot list --dsn postgres://relay@db/shop",
		Flags:       flags("o", "dsn", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				slots, err := d.slotList(ctx)
				if err != nil {
					return err
				}
				return p.print(c, slots, func() { printSlots(p.out, slots) })
			})
		},
	}
}

// slotList returns all slots of the server. What the role may not see costs a
// remark.
func (d *database) slotList(ctx context.Context) ([]slotJSON, error) {
	slots, remarks, err := replication.InspectSlots(ctx, d.conn)
	if err != nil {
		return nil, err
	}
	for _, remark := range remarks {
		d.note(remark)
	}
	records, err := d.records(ctx)
	if err != nil {
		return nil, err
	}
	views := make([]slotJSON, len(slots))
	for i, s := range slots {
		views[i] = recordedSlot(s, ownRecord(s, records))
	}
	return views, nil
}

// ownRecord returns the record of a slot. A slot of another database may have
// the name of one that was here before.
func ownRecord(s replication.Slot, records map[string]*slotRecord) *slotRecord {
	if s.Database != s.CurrentDatabase {
		return nil
	}
	return records[s.Name]
}

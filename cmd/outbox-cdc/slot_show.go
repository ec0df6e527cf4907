package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

func (p *program) slotShowCommand() *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show the slot: position, lag, what it retains, who holds it",
		UsageText: "outbox-cdc slot show --slot orders -o json",
		Flags:     flags("o", "dsn", "slot"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				slot, err := replication.ShowSlot(ctx, d.conn, d.Slot)
				if err != nil {
					return err
				}
				return p.print(c, newSlotJSON(slot), func() { p.printSlots([]replication.Slot{slot}) })
			})
		},
	}
}

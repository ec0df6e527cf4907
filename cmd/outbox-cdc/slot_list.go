package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

func (p *program) slotListCommand() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "list all slots of the server, with what each retains",
		Description: "Shows the slots of others too: each of them can fill the disk.",
		UsageText:   "outbox-cdc slot list --dsn postgres://relay@db/shop",
		Flags:       flags("o", "dsn"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				slots, err := replication.ListSlots(ctx, d.conn)
				if err != nil {
					return err
				}
				list := make([]slotJSON, len(slots))
				for i, slot := range slots {
					list[i] = newSlotJSON(slot)
				}
				return p.print(c, list, func() { p.printSlots(slots) })
			})
		},
	}
}

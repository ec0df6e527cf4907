package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

func (p *program) slotDropCommand() *cli.Command {
	return &cli.Command{
		Name:  "drop",
		Usage: "drop the slot",
		Description: "What the slot has not confirmed is not published any more. A slot that is in use, or that has no record of ours " +
			"and so may belong to something else, is dropped only with --force.",
		UsageText: "outbox-cdc slot drop --slot orders --yes",
		Flags:     flags("yes", "force", "o", "dsn", "slot", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				return d.dropSlot(ctx, c)
			})
		},
	}
}

// drop is what slot drop did.
type drop struct {
	Slot      string   `json:"slot"`
	Confirmed lsnText  `json:"confirmed_flush_lsn"`
	GivenUp   *int64   `json:"given_up_bytes"`
	Ended     []string `json:"ended_holders,omitempty"`
}

func (d *database) dropSlot(ctx context.Context, c *cli.Context) error {
	v, err := d.readSlot(ctx)
	if err != nil {
		return err
	}
	record, err := d.record(ctx)
	if err != nil {
		return err
	}
	force := c.Bool("force")
	switch {
	case v.ActivePID != 0 && !force:
		return &replication.Fault{Kind: replication.ErrBusy, Message: fmt.Sprintf(
			"slot %q is in use by %s; stop what uses it first, or give --force to end that", v.Name, v.Holder())}
	case record == nil && !force:
		return usage("slot %q has no record of outbox-cdc and may belong to something else; give --force to drop it nevertheless", v.Name)
	}
	if err := d.p.confirm(c, givingUp(v)); err != nil {
		return err
	}
	done := drop{Slot: v.Name, Confirmed: v.Confirmed, GivenUp: v.LagBytes}
	if force {
		done.Ended, err = replication.ForceDropSlot(ctx, d.conn, d.Slot)
	} else {
		err = replication.DropSlot(ctx, d.conn, d.Slot)
	}
	if err != nil {
		return err
	}
	return d.p.print(c, done, func() {
		for _, holder := range done.Ended {
			fmt.Fprintf(d.p.out, "ended %s\n", holder)
		}
		fmt.Fprintf(d.p.out, "slot %s dropped at %s\n", done.Slot, done.Confirmed)
	})
}

// givingUp says what dropping a slot means.
func givingUp(v slotJSON) string {
	what := fmt.Sprintf("dropping slot %q at %s gives up ", v.Name, v.Confirmed)
	if v.LagBytes == nil {
		what += "what it has not confirmed"
	} else {
		what += sizeOf(*v.LagBytes) + " of write-ahead log that it has not confirmed"
	}
	if v.ActivePID != 0 {
		what += ", and ends " + v.Holder()
	}
	return what
}

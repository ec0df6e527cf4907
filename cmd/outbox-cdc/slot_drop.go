package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

// dropTimeout is how long a holder may take to leave the slot.
const dropTimeout = 10 * time.Second

func (p *program) slotDropCommand() *cli.Command {
	return &cli.Command{
		Name:  "drop",
		Usage: "drop the slot",
		Description: "What the slot has not confirmed is not published any more. A slot that is in use, or that has no record of ours " +
			"and so may belong to something else, is dropped only with --force.",
		UsageText: "outbox-cdc slot drop --slot orders --yes",
		Flags:     flags("yes", "force", "dsn", "slot", "table"),
		Action: func(c *cli.Context) error {
			return p.withDatabase(c, &settings{c: c}, func(ctx context.Context, d *database) error {
				return d.dropSlot(ctx, c)
			})
		},
	}
}

func (d *database) dropSlot(ctx context.Context, c *cli.Context) error {
	slot, err := replication.ShowSlot(ctx, d.conn, d.Slot)
	if err != nil {
		return err
	}
	record, err := d.record(ctx)
	if err != nil {
		return err
	}
	force := c.Bool("force")
	switch {
	case slot.ActivePID != 0 && !force:
		return &replication.Fault{Kind: replication.ErrBusy, Message: fmt.Sprintf(
			"slot %q is in use by process %d of the server; stop what uses it first, or give --force to end that", slot.Name, slot.ActivePID)}
	case record == nil && !force:
		return usage("slot %q has no record of outbox-cdc and may belong to something else; give --force to drop it nevertheless", slot.Name)
	}
	what := fmt.Sprintf("dropping slot %q at %s gives up %s of write-ahead log that it has not confirmed", slot.Name, slot.Confirmed, sizeOf(slot.LagBytes))
	if err := d.p.confirm(c, what); err != nil {
		return err
	}
	if force {
		err = d.forceDrop(ctx)
	} else {
		err = replication.DropSlot(ctx, d.conn, d.Slot)
	}
	if err == nil {
		fmt.Fprintf(d.p.out, "slot %s dropped at %s\n", slot.Name, slot.Confirmed)
	}
	return err
}

// forceDrop ends whoever holds the slot until it can be dropped: a process that
// is not stopped takes it again.
func (d *database) forceDrop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	for {
		err := replication.DropSlot(ctx, d.conn, d.Slot)
		if !errors.Is(err, replication.ErrBusy) {
			return err
		}
		const end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active_pid IS NOT NULL"
		if _, end := d.conn.Exec(ctx, end, d.Slot); end != nil {
			return setupFault(fmt.Sprintf("end the holder of slot %q", d.Slot), end)
		}
		if !wait(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

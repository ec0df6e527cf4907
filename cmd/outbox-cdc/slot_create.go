package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

func (p *program) slotCreateCommand() *cli.Command {
	return &cli.Command{
		Name:  "create",
		Usage: "create the slot",
		Description: "Waits for every transaction that has written something. Rows committed before the slot exists are not in it. " +
			"The publication has to exist already: rows written before it cannot be decoded.",
		UsageText: "outbox-cdc slot create --slot orders --timeout 30s",
		Flags:     flags("timeout", "failover", "o", "dsn", "slot", "publication", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			options := replication.CreateSlotOptions{Failover: c.Bool("failover"), Timeout: s.duration("timeout")}
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				return d.createSlot(ctx, c, options)
			})
		},
	}
}

func (d *database) createSlot(ctx context.Context, c *cli.Context, options replication.CreateSlotOptions) error {
	if _, err := replication.ShowPublication(ctx, d.conn, d.Publication); err != nil {
		return err
	}
	record, err := d.record(ctx)
	if err != nil {
		return err
	}
	slot, err := d.newSlot(ctx, options)
	if err != nil {
		return err
	}
	if record != nil {
		d.note(fmt.Sprintf("slot %q existed before and had confirmed %s; rows committed between that and %s are not published",
			d.Slot, record.Confirmed, slot.Confirmed))
	}
	if err := d.accept(ctx, slot, true); err != nil {
		return err
	}
	return d.p.print(c, newSlotJSON(slot), func() { fmt.Fprintf(d.p.out, "slot %s created at %s\n", slot.Name, slot.Confirmed) })
}

// silentFor is how long the creation of a slot waits before it says for what.
const silentFor = 2 * time.Second

// newSlot creates the slot. While the server waits for open transactions, which
// can be for ever, it says which these are.
func (d *database) newSlot(ctx context.Context, options replication.CreateSlotOptions) (replication.Slot, error) {
	waiting, created := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		if wait(waiting, silentFor) {
			d.tellWaiting(waiting)
		}
	}()
	slot, err := replication.CreateSlot(ctx, d.conn, d.Slot, options)
	created()
	<-told
	return slot, err
}

// tellWaiting uses a connection of its own, as the other is waiting.
func (d *database) tellWaiting(ctx context.Context) {
	conn, err := d.Connect(ctx)
	if err != nil {
		return // the creation will tell what is wrong
	}
	defer conn.Close(context.WithoutCancel(ctx))
	who := replication.OpenTransactions(ctx, conn)
	if ctx.Err() == nil {
		d.p.note("the server waits for open transactions to end before it creates the slot: " + who)
	}
}

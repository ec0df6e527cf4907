//go:build linux || darwin

package replication

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestForceDropBeatsAHolderThatComesBack has somebody take the slot again the
// moment they lose it.
//
// Behaviours: R4
func TestForceDropBeatsAHolderThatComesBack(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	ctx, cancel := context.WithCancel(t.Context())
	stubborn := make(chan struct{})
	go func() {
		defer close(stubborn)
		for ctx.Err() == nil {
			o.hold(ctx)
		}
	}()
	defer func() {
		cancel()
		<-stubborn
	}()
	for range 5 {
		harness.Eventually(t, 20*time.Second, func() error {
			if o.slot().ActivePID == 0 {
				return fmt.Errorf("nobody holds the slot")
			}
			return nil
		})
		slot, _, err := InspectSlot(t.Context(), o.conn, o.cfg.Slot)
		if err != nil {
			t.Fatal(err)
		}
		if c := slot.Client; c != nil && (c.User != "postgres" || c.Application != "stubborn" || c.Address != "127.0.0.1") {
			t.Errorf("got the holder %+v", c)
		}
		says(t, DropSlot(t.Context(), o.conn, o.cfg.Slot), ErrBusy, "in use by process ")
		ended, err := ForceDropSlot(t.Context(), o.conn, o.cfg.Slot)
		if err != nil {
			t.Fatal(err)
		}
		if len(ended) == 0 || !strings.Contains(strings.Join(ended, "; "), "(user postgres, application stubborn, from 127.0.0.1)") {
			t.Errorf("got the holders %q", ended)
		}
		if _, err := CreateSlot(t.Context(), o.conn, o.cfg.Slot, CreateSlotOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// hold holds the slot for as long as the server lets it.
func (o *outbox) hold(ctx context.Context) {
	conn, err := pgconn.Connect(ctx, o.cfg.DSN+"&replication=database&application_name=stubborn")
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	cfg := o.cfg
	if startReplication(ctx, conn, cfg) == nil {
		for err == nil {
			_, err = conn.ReceiveMessage(ctx)
		}
	}
}

func TestSlotsThatCannotBeDroppedHere(t *testing.T) {
	pg := harness.SharedPostgres(t)
	o, other := newDatabase(t, pg), newOutbox(t, pg)
	for _, drop := range []func() error{
		func() error { return DropSlot(t.Context(), o.conn, other.cfg.Slot) },
		func() error { _, err := ForceDropSlot(t.Context(), o.conn, other.cfg.Slot); return err },
	} {
		says(t, drop(), ErrSetup, fmt.Sprintf("belongs to database %q, not %q", other.cfg.Slot, o.cfg.Slot), "--dsn")
	}
	if _, err := ForceDropSlot(t.Context(), o.conn, o.cfg.Slot); err == nil {
		t.Error("a slot that is not there was dropped")
	} else {
		says(t, err, ErrGap, "does not exist")
	}
	// A temporary slot goes with its holder.
	holder, err := o.cfg.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	if _, err := holder.Exec(t.Context(), "SELECT pg_create_logical_replication_slot($1, 'pgoutput', true)", o.cfg.Slot); err != nil {
		t.Fatal(err)
	}
	if ended, err := ForceDropSlot(t.Context(), o.conn, o.cfg.Slot); err != nil || len(ended) != 1 {
		t.Errorf("got %q, %v", ended, err)
	}
}

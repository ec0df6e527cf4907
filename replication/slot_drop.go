package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// forceTimeout is how long the holders of a slot may take to end.
	forceTimeout = 10 * time.Second
	// forcePoll is the pause between two attempts to end them.
	forcePoll = 20 * time.Millisecond
)

// DropSlot drops a slot. One that is in use is ErrBusy; one that does not
// exist is a fault of kind ErrGap.
func DropSlot(ctx context.Context, conn *pgx.Conn, name string) error {
	slot, _, err := InspectSlot(ctx, conn, name)
	if err != nil {
		return err
	}
	if err := slot.droppable(); err != nil {
		return err
	}
	if slot.ActivePID != 0 {
		return inUse(slot)
	}
	_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name)
	return dropFault(slot, err)
}

// droppable reports a slot that only another database or server can drop.
func (s Slot) droppable() error {
	switch {
	case s.Synced && s.OnStandby:
		return fault(ErrSetup, "slot %q is a copy that this standby keeps; drop it on the primary", s.Name)
	case s.Type == "logical" && s.Database != s.CurrentDatabase:
		return fault(ErrSetup, "slot %q belongs to database %q, not %q, and can be dropped only from there; correct --dsn or --slot", s.Name, s.Database, s.CurrentDatabase)
	}
	return nil
}

func dropFault(slot Slot, err error) error {
	switch {
	case isCode(err, "55006"):
		return inUse(slot).because(err)
	case isCode(err, "42704"):
		return errNoSlot(slot.Name)
	case isCode(err, "42501"):
		return fault(ErrDenied, "slot %q was not dropped, the user may not; it takes the REPLICATION attribute, and pg_signal_backend to end a holder of another user", slot.Name).because(err)
	case err != nil:
		return fmt.Errorf("drop slot %q: %w", slot.Name, err)
	}
	return nil
}

func inUse(slot Slot) *Fault {
	return fault(ErrBusy, "slot %q is in use by %s; stop what uses it first", slot.Name, slot.Holder())
}

// ForceDropSlot ends whoever holds the slot and drops it, again and again until
// that works: a process that is not stopped takes the slot again. It returns a
// description of each holder that it has ended. A slot that does not exist is a
// fault of kind ErrGap; one whose holders do not end within ten seconds ErrBusy.
func ForceDropSlot(ctx context.Context, conn *pgx.Conn, name string) (ended []string, err error) {
	deadline := time.Now().Add(forceTimeout)
	var last uint32
	for {
		slot, _, err := InspectSlot(ctx, conn, name)
		if err == nil {
			err = slot.droppable()
		}
		if err == nil {
			if slot.ActivePID != 0 && slot.ActivePID != last {
				last = slot.ActivePID
				ended = append(ended, slot.Holder())
			}
			err = dropFault(slot, endAndDrop(ctx, conn, name))
		}
		if errors.Is(err, ErrGap) && len(ended) > 0 {
			return ended, nil // a temporary slot ends with its holder
		}
		if !errors.Is(err, ErrBusy) {
			return ended, err
		}
		if time.Now().After(deadline) {
			return ended, fault(ErrBusy, "slot %q is still in use by %s after %s; stop what uses it first", name, slot.Holder(), forceTimeout)
		}
		if err := sleep(ctx, forcePoll); err != nil {
			return ended, err
		}
	}
}

// endAndDrop does both on the server, again and again for a second: between two
// queries of ours, a holder that comes back at once would win every time.
func endAndDrop(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, strings.ReplaceAll(`DO $do$ BEGIN
  FOR attempt IN 1..1000 LOOP
    PERFORM pg_terminate_backend(active_pid) FROM pg_get_replication_slots() WHERE slot_name = NAME AND active_pid IS NOT NULL;
    BEGIN
      PERFORM pg_drop_replication_slot(NAME);
      RETURN;
    EXCEPTION WHEN object_in_use THEN
      IF attempt = 1000 THEN RAISE; END IF;
      PERFORM pg_sleep(0.001);
    END;
  END LOOP;
END $do$`, "NAME", quoteLiteral(name)))
	return err
}

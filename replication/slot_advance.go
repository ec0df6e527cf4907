package replication

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// AdvanceTarget checks that a slot can be moved forward to lsn, or to the end
// of the WAL if that is 0, and returns the slot and where it would go.
func AdvanceTarget(ctx context.Context, conn *pgx.Conn, name string, lsn pglogrepl.LSN) (Slot, pglogrepl.LSN, error) {
	slot, _, err := InspectSlot(ctx, conn, name)
	if err != nil {
		return Slot{}, 0, err
	}
	if err := slot.usable(); err != nil {
		return Slot{}, 0, err
	}
	if slot.ActivePID != 0 {
		return Slot{}, 0, inUse(slot)
	}
	if slot.OnStandby {
		return Slot{}, 0, CheckPrimary(ctx, conn)
	}
	end, err := walEnd(ctx, conn)
	if err != nil {
		return Slot{}, 0, err
	}
	switch {
	case lsn == 0:
		lsn = max(end, slot.Confirmed)
	case lsn > end:
		return Slot{}, 0, fault(ErrSetup, "--to %s is beyond the end of the server's WAL, %s", lsn, end)
	case lsn < slot.Confirmed:
		return Slot{}, 0, fault(ErrSetup, "--to %s is behind slot %q, which stands at %s and cannot go back", lsn, name, slot.Confirmed)
	}
	return slot, lsn, nil
}

// AdvanceSlot moves a slot forward to lsn, or to the end of the WAL if that is
// 0, and returns where it was and where it is. What is skipped will never be
// published.
func AdvanceSlot(ctx context.Context, conn *pgx.Conn, name string, lsn pglogrepl.LSN) (from, to pglogrepl.LSN, err error) {
	slot, lsn, err := AdvanceTarget(ctx, conn, name, lsn)
	if err != nil {
		return 0, 0, err
	}
	if lsn == slot.Confirmed {
		return slot.Confirmed, slot.Confirmed, nil
	}
	var reached string
	err = conn.QueryRow(ctx, "SELECT end_lsn::text FROM pg_replication_slot_advance($1, $2::text::pg_lsn)", name, lsn.String()).Scan(&reached)
	switch {
	case isCode(err, "55006"):
		return 0, 0, inUse(slot).because(err)
	case isCode(err, "42501"):
		return 0, 0, fault(ErrDenied, "slot %q was not advanced, the user may not; as a superuser: ALTER ROLE %s REPLICATION", name, quoteIdentifier(conn.Config().User)).because(err)
	case err != nil:
		return 0, 0, fmt.Errorf("advance slot %q to %s: %w", name, lsn, err)
	}
	to, err = pglogrepl.ParseLSN(reached)
	return slot.Confirmed, to, err
}

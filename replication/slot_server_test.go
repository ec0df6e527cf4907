//go:build linux || darwin

package replication

import (
	"errors"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestSlotIsCreatedShownAdvancedAndDropped(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	ctx := t.Context()
	slot := o.slot()
	if slot.Plugin != "pgoutput" || slot.Type != "logical" || slot.Database != o.cfg.Slot || slot.ActivePID != 0 || slot.Confirmed == 0 {
		t.Errorf("got %+v", slot)
	}
	if _, err := CreateSlot(ctx, o.conn, o.cfg.Slot, CreateSlotOptions{}); !errors.Is(err, ErrSetup) {
		t.Errorf("created twice: %v", err)
	}
	o.insert(5)
	if got := o.slot(); got.LagBytes <= 0 || got.RetainedBytes < got.LagBytes {
		t.Errorf("lag %d, retained %d", got.LagBytes, got.RetainedBytes)
	}
	end, err := walEnd(ctx, o.conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := AdvanceSlot(ctx, o.conn, o.cfg.Slot, end+1<<30); !errors.Is(err, ErrSetup) {
		t.Errorf("advanced beyond the WAL: %v", err)
	}
	if _, _, err := AdvanceSlot(ctx, o.conn, o.cfg.Slot, slot.Confirmed-1); !errors.Is(err, ErrSetup) {
		t.Errorf("advanced backwards: %v", err)
	}
	from, to, err := AdvanceSlot(ctx, o.conn, o.cfg.Slot, 0)
	if err != nil || from != slot.Confirmed || to < end {
		t.Errorf("advanced from %s to %s (%v), want from %s to %s or beyond", from, to, err, slot.Confirmed, end)
	}
	if err := o.at(to); err != nil {
		t.Error(err)
	}
	slots, err := ListSlots(ctx, o.conn)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range slots {
		found = found || s.Name == o.cfg.Slot
	}
	if !found {
		t.Errorf("slot %q is not among %d", o.cfg.Slot, len(slots))
	}

	s := o.open()
	if err := DropSlot(ctx, o.conn, o.cfg.Slot); !errors.Is(err, ErrBusy) {
		t.Errorf("dropped while in use: %v", err)
	}
	if _, _, err := AdvanceSlot(ctx, o.conn, o.cfg.Slot, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("advanced while in use: %v", err)
	}
	s.close()
	harness.Eventually(t, 5*time.Second, func() error { return DropSlot(ctx, o.conn, o.cfg.Slot) })
	if err := DropSlot(ctx, o.conn, o.cfg.Slot); !errors.Is(err, ErrGap) {
		t.Errorf("dropped twice: %v", err)
	}
}

func TestPublicationIsCreatedOnceAndGrows(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	ctx := t.Context()
	if done, err := CreatePublication(ctx, o.conn, o.cfg.Publication, o.cfg.Tables); err != nil || len(done) != 0 {
		t.Errorf("a second time: %q, %v", done, err)
	}
	o.exec("CREATE TABLE more (LIKE outbox_events)")
	more := append(o.cfg.Tables, o.cfg.Tables[0])
	more[1].Name = "more"
	if done, err := CreatePublication(ctx, o.conn, o.cfg.Publication, more); err != nil || len(done) != 1 {
		t.Errorf("one more table: %q, %v", done, err)
	}
	p, err := ShowPublication(ctx, o.conn, o.cfg.Publication)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Insert || p.Update || p.Delete || p.Truncate || !p.ViaRoot || p.AllTables || len(p.Tables) != 2 {
		t.Errorf("got %+v", p)
	}
	if _, err := DropPublication(ctx, o.conn, o.cfg.Publication); err != nil {
		t.Fatal(err)
	}
	if _, err := DropPublication(ctx, o.conn, o.cfg.Publication); !errors.Is(err, ErrSetup) {
		t.Errorf("dropped twice: %v", err)
	}
	missing := more[1:]
	missing[0].Name = "nowhere"
	if _, err := CreatePublication(ctx, o.conn, o.cfg.Publication, missing); !errors.Is(err, ErrSetup) {
		t.Errorf("for a table that is not there: %v", err)
	}
}

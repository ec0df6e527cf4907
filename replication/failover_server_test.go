//go:build linux || darwin

package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// standby starts a standby of the outbox's server and returns the same outbox
// on it.
func (o *outbox) standby() *outbox {
	o.t.Helper()
	ctx := o.t.Context()
	o.exec("SELECT pg_create_physical_replication_slot('standby')")
	if _, err := o.pg.Stop(ctx, harness.Fast); err != nil {
		o.t.Fatal(err)
	}
	data, err := o.pg.SaveData()
	if err != nil {
		o.t.Fatal(err)
	}
	// A base backup has no slots.
	if err := os.RemoveAll(filepath.Join(data, "pg_replslot")); err != nil {
		o.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(data, "pg_replslot"), 0o700); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644); err != nil {
		o.t.Fatal(err)
	}
	if err := o.pg.Start(ctx); err != nil {
		o.t.Fatal(err)
	}
	o.connect()
	host, port, err := net.SplitHostPort(o.pg.Addr())
	if err != nil {
		o.t.Fatal(err)
	}
	pg := harness.NewPostgres(o.t, harness.PostgresConfig{Data: data, Settings: map[string]string{
		"primary_conninfo":     fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres", host, port),
		"primary_slot_name":    "standby",
		"hot_standby_feedback": "on",
	}})
	s := &outbox{t: o.t, pg: pg, cfg: o.cfg}
	s.cfg.DSN = pg.DSN(o.cfg.Slot)
	s.connect()
	return s
}

// connect opens the outbox's connection again.
func (o *outbox) connect() {
	o.t.Helper()
	conn, err := o.cfg.Connect(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	o.conn = conn
	o.t.Cleanup(func() { conn.Close(context.Background()) })
}

// TestFailoverSlots creates one where the server has them, on a primary, and is
// refused everywhere else. The standby then takes the primary's place, and its
// copy of the slot the slot's.
//
// Behaviours: S19
func TestFailoverSlots(t *testing.T) {
	o := newOutbox(t, harness.NewPostgres(t, harness.PostgresConfig{}))
	o.dropSlot()
	ctx := t.Context()
	failover := CreateSlotOptions{Failover: true}
	slot, err := CreateSlot(ctx, o.conn, o.cfg.Slot, failover)
	supported := o.pg.Version() >= 17
	switch {
	case !supported:
		says(t, err, ErrSetup, "--failover needs PostgreSQL 17 or later", fmt.Sprintf("the server is %d", o.pg.Version()))
		o.noSlot()
	case err != nil || !slot.Failover || slot.Synced:
		t.Fatalf("got %+v, %v", slot, err)
	}
	s := o.standby()
	for _, options := range []CreateSlotOptions{{}, failover} {
		_, err = CreateSlot(ctx, s.conn, "other", options)
		says(t, err, ErrSetup, "the server is a standby", "name the primary in --dsn")
	}
	if _, err := Preflight(ctx, s.cfg); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable: a standby may be promoted", err)
	}
	if slots, err := ListSlots(ctx, s.conn); err != nil || len(slots) != 0 {
		t.Errorf("got %d slots, %v", len(slots), err)
	}
	if !supported {
		return
	}

	harness.Eventually(t, 30*time.Second, func() error {
		// A copy is kept once the slot has gone past where the copy began.
		o.exec("SELECT pg_log_standby_snapshot()")
		o.exec("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", o.cfg.Slot)
		if _, err := s.conn.Exec(ctx, "SELECT pg_sync_replication_slots()"); err != nil {
			return err // the standby is not that far
		}
		if copied, err := ShowSlot(ctx, s.conn, s.cfg.Slot); err != nil || copied.Temporary {
			return fmt.Errorf("the slot is not copied: %+v, %w", copied, err)
		}
		return nil
	})
	copied, remarks, err := InspectSlot(ctx, s.conn, s.cfg.Slot)
	if err != nil || len(remarks) != 0 || !copied.Synced || !copied.OnStandby || copied.RetainedBytes < 0 {
		t.Errorf("got %+v, %q, %v", copied, remarks, err)
	}
	says(t, DropSlot(ctx, s.conn, s.cfg.Slot), ErrSetup, "a copy that this standby keeps")
	_, _, err = AdvanceSlot(ctx, s.conn, s.cfg.Slot, 0)
	says(t, err, ErrUnreachable, "a copy on a standby", "name the primary in --dsn")

	if err := o.pg.Kill(); err != nil {
		t.Fatal(err)
	}
	s.exec("SELECT pg_promote()")
	if promoted := s.slot(); !promoted.Synced || promoted.OnStandby {
		t.Errorf("got %+v", promoted)
	}
	session := s.open()
	s.insert(3)
	session.consume(t, 3)
	session.finish(t)
}

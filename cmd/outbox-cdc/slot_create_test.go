//go:build linux || darwin

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestSlotCreateRefuses(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"max_replication_slots": "1"}})
	s := newShopOn(t, pg)
	s.want(codeUsage, "slot create", `publication "outbox_cdc" does not exist`)
	s.sql("CREATE TABLE outbox_events (id uuid, aggregate_type text, aggregate_id text, event_type text, payload jsonb)")
	s.want(codeOK, "publication create")
	if pg.Version() < 17 {
		s.want(codeUsage, "slot create --failover", "--failover needs PostgreSQL 17 or later")
	}
	s.want(codeUsage, "slot create --timeout 0s", "--timeout must be positive")
	tx, err := s.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "INSERT INTO outbox_events DEFAULT VALUES"); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"slot create --timeout 300ms", "init --timeout 300ms"} {
		s.want(codeBusy, command, fmt.Sprintf("pid %d, user postgres, database ", s.conn.PgConn().PID()), "idle in transaction", "--timeout 300ms")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.slots() != "0" {
		t.Error("a slot was left behind")
	}
	s.sql("SELECT pg_create_physical_replication_slot('forgotten')")
	s.want(codeUsage, "slot create", "max_replication_slots = 1 are taken: forgotten (inactive", "outbox-cdc slot drop")
	s.sql("SELECT pg_drop_replication_slot('forgotten')")
	if created := parse[listedSlot](t, s.want(codeOK, "slot create -o json").out); created.Name != s.slot || created.Confirmed == "" {
		t.Errorf("got %+v", created)
	}
	s.want(codeUsage, "slot create", "exists already")
}

// TestSlotCreateSaysWhatItWaitsFor ends what is in the way as soon as that is
// named.
func TestSlotCreateSaysWhatItWaitsFor(t *testing.T) {
	s := newShopOn(t, harness.NewPostgres(t, harness.PostgresConfig{}))
	s.want(codeOK, "init")
	s.want(codeOK, "slot drop --yes")
	tx, err := s.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "CREATE TABLE open ()"); err != nil {
		t.Fatal(err)
	}
	said, saying := io.Pipe()
	p := &program{out: io.Discard, err: saying, stop: stopping{soft: t.Context(), hard: context.Background()}}
	ended := make(chan int, 1)
	go func() {
		ended <- p.execute([]string{"outbox-cdc", "slot", "create"})
		saying.Close()
	}()
	lines := bufio.NewScanner(said)
	if want := fmt.Sprintf("waits for open transactions to end before it creates the slot: pid %d, ", s.conn.PgConn().PID()); !lines.Scan() || !strings.Contains(lines.Text(), want) {
		t.Errorf("got %q, want %q in it", lines.Text(), want)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if code := <-ended; code != codeOK || s.slots() != "1" {
		t.Errorf("got exit code %d and %s slots", code, s.slots())
	}
}

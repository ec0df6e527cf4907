//go:build linux || darwin

package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// says checks an error for an operator: its kind, one line, and what is in it.
func says(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %q, want %q in it", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("got more than a line: %q", err)
	}
}

// noSlot checks that the outbox has none.
func (o *outbox) noSlot() {
	o.t.Helper()
	if _, err := ShowSlot(o.t.Context(), o.conn, o.cfg.Slot); !errors.Is(err, ErrGap) {
		o.t.Errorf("got %v, want no slot", err)
	}
}

// limited is a server with little room, and nobody on it but the test: slot
// creation waits for every transaction of a server.
func limited(t *testing.T) *outbox {
	t.Helper()
	return newDatabase(t, harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{
		"max_replication_slots": "3", "max_prepared_transactions": "2",
	}}))
}

// TestSlotCreationThatGivesUpNamesWhoIsInTheWayAndLeavesNothing has slots be
// created behind open transactions: with a timeout, by a client that is killed,
// and by one that is told to stop.
//
// Behaviours: S18
func TestSlotCreationThatGivesUpNamesWhoIsInTheWayAndLeavesNothing(t *testing.T) {
	o := limited(t)
	ctx := t.Context()
	cfg := o.cfg
	cfg.ApplicationName = "nightly job"
	other, err := cfg.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	// The prepared one is older.
	o.exec("CREATE TABLE open (secret text)")
	o.exec("BEGIN; INSERT INTO open VALUES ('one'); PREPARE TRANSACTION 'left behind'")
	if _, err := other.Exec(ctx, "BEGIN; INSERT INTO open VALUES ('a payload')"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, err = CreateSlot(ctx, o.conn, o.cfg.Slot, CreateSlotOptions{Timeout: 300 * time.Millisecond})
	says(t, err, ErrBusy, "--timeout 300ms", "prepared transaction 'left behind', user postgres",
		fmt.Sprintf("pid %d, user postgres, database %s, application nightly job, open for 00:00:0", other.PgConn().PID(), o.cfg.Slot),
		"idle in transaction, last statement ")
	if strings.Contains(err.Error(), "payload") {
		t.Errorf("the error shows what is in a statement: %v", err)
	}
	if first := strings.Index(err.Error(), "prepared"); first > strings.Index(err.Error(), "nightly") {
		t.Errorf("the oldest does not come first: %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("giving up took %s", took)
	}
	o.noSlot()

	// Nobody waits for the end of a client that was killed, so the server must.
	dead, err := o.cfg.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := CreateSlot(ctx, dead, o.cfg.Slot, CreateSlotOptions{})
		ended <- err
	}()
	waits := fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'", dead.PgConn().PID())
	backends := func(query string, want int) {
		t.Helper()
		harness.Eventually(t, 20*time.Second, func() error {
			var n int
			if err := o.conn.QueryRow(ctx, query).Scan(&n); err != nil || n != want {
				return fmt.Errorf("%d backends (%v), want %d", n, err, want)
			}
			return nil
		})
	}
	backends(waits, 1)
	dead.PgConn().Conn().Close()
	if err := <-ended; err == nil {
		t.Error("no error from a connection that is gone")
	}
	backends(strings.Replace(waits, " AND wait_event_type = 'Lock'", "", 1), 0)

	canceled, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := CreateSlot(canceled, o.conn, o.cfg.Slot, CreateSlotOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
	if _, err := other.Exec(ctx, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	o.exec("COMMIT PREPARED 'left behind'")
	o.noSlot()
}

// TestSlotCreationListsTheSlotsThatAreInTheWay has every slot of the server be
// taken.
//
// Behaviours: S22
func TestSlotCreationListsTheSlotsThatAreInTheWay(t *testing.T) {
	o := limited(t)
	o.exec("SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')")
	o.exec("SELECT pg_create_physical_replication_slot('standby_1', true)")
	other, err := o.cfg.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	if _, err := other.Exec(t.Context(), "SELECT pg_create_logical_replication_slot('in_use', 'pgoutput', true)"); err != nil {
		t.Fatal(err)
	}
	_, err = CreateSlot(t.Context(), o.conn, o.cfg.Slot, CreateSlotOptions{})
	forgotten := "forgotten (inactive, 0 transactions behind)"
	if o.pg.Version() >= 17 {
		forgotten = "forgotten (inactive for 0s)"
	}
	says(t, err, ErrSetup, "max_replication_slots = 3 are taken", forgotten, "standby_1 (inactive",
		fmt.Sprintf("in_use (active, pid %d)", other.PgConn().PID()), "outbox-cdc slot drop")
}

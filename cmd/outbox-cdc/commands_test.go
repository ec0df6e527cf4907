//go:build linux || darwin

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// shop is a database of its own that the commands are tried on.
type shop struct {
	t    *testing.T
	conn *pgx.Conn // the owner's
	dsn  string
	slot string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return newShopOn(t, harness.SharedPostgres(t))
}

func newShopOn(t *testing.T, server *harness.Postgres) *shop {
	t.Helper()
	database := harness.NewDatabase(t, server)
	conn, err := server.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	s := &shop{t: t, conn: conn, dsn: server.DSN(database), slot: harness.Name(t)}
	t.Setenv("OUTBOX_CDC_DSN", s.dsn)
	t.Setenv("OUTBOX_CDC_SLOT", s.slot)
	return s
}

func (s *shop) sql(statement string, args ...any) {
	s.t.Helper()
	if _, err := s.conn.Exec(s.t.Context(), statement, args...); err != nil {
		s.t.Fatal(err)
	}
}

// value returns what a query for one value gives.
func (s *shop) value(query string, args ...any) string {
	s.t.Helper()
	var value any
	if err := s.conn.QueryRow(s.t.Context(), query, args...).Scan(&value); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprint(value)
}

// want runs a command and compares the exit code and what it says: each of says
// has to be in its output.
func (s *shop) want(code int, command string, says ...string) outcome {
	s.t.Helper()
	got := execute(s.t, strings.Fields(command)...)
	if got.code != code {
		s.t.Errorf("%s: got exit code %d, want %d; it said %s%s", command, got.code, code, got.out, got.err)
	}
	for _, part := range says {
		if !strings.Contains(got.out+got.err, part) {
			s.t.Errorf("%s: got %s%s, want %q in it", command, got.out, got.err, part)
		}
	}
	return got
}

func (s *shop) slots() string {
	return s.value("SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1", s.slot)
}

// sqlAfter is sql for the end of a test.
func (s *shop) sqlAfter(statement string) {
	if _, err := s.conn.Exec(context.Background(), statement); err != nil {
		s.t.Error(err)
	}
}

func TestSlotCommands(t *testing.T) {
	s := newShop(t)
	s.want(codeGap, "slot show", "does not exist; ", `create it with "outbox-cdc slot create`)
	s.want(codeUsage, "slot create", `publication "outbox_cdc" does not exist`)
	s.sql("CREATE TABLE outbox_events (id uuid, aggregate_type text, aggregate_id text, event_type text, payload jsonb)")
	s.want(codeOK, "publication create", "CREATE PUBLICATION")
	s.want(codeOK, "slot create", "gap detection is off", "created at")
	s.want(codeUsage, "slot create", "exists already")
	s.want(codeUsage, "slot drop --yes", "has no record of outbox-cdc")
	s.want(codeOK, "slot drop --yes --force", "dropped at")
	s.want(codeOK, "init")

	var shown struct {
		Name      string `json:"name"`
		Confirmed string `json:"confirmed_flush_lsn"`
		Lag       *int64 `json:"lag_bytes"`
	}
	if err := json.Unmarshal([]byte(s.want(codeOK, "slot show -o json").out), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Name != s.slot || !strings.Contains(shown.Confirmed, "/") || shown.Lag == nil {
		t.Errorf("got %+v", shown)
	}
	s.want(codeOK, "slot list", s.slot, "RETAINED", "reserved")
	s.want(codeUsage, "slot advance --to FFFF/0 --yes", "beyond the end of the server's WAL")
	s.want(codeUsage, "slot advance --to 0/1 --yes", "cannot go back")
	s.want(codeUsage, "slot advance --to now", "give --yes")
	s.want(codeOK, "slot advance --to now --yes -o json", `"to": "`)
	confirmed := s.value("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.slot)
	if got := s.value("SELECT confirmed::text FROM outbox_cdc_checkpoint WHERE slot = $1", s.slot); got != confirmed {
		t.Errorf("the record says %s, the slot stands at %s", got, confirmed)
	}
	s.want(codeUsage, "slot drop", "give --yes")
	if s.slots() != "1" {
		t.Fatal("the slot was dropped without --yes")
	}
	s.want(codeOK, "slot drop --yes", "dropped at "+confirmed)
	s.want(codeOK, "slot create", "existed before and had confirmed "+confirmed)
}

func TestPublicationCommands(t *testing.T) {
	s := newShop(t)
	s.want(codeUsage, "publication show", `publication "outbox_cdc" does not exist`)
	s.want(codeUsage, "publication create", "a table does not exist")
	s.want(codeUsage, "publication drop --yes", `publication "outbox_cdc" does not exist`)
	s.want(codeOK, "init")
	s.want(codeOK, "publication create", "has all it needs")
	s.want(codeOK, "publication show", "sends insert\n", `table "public"."outbox_events"`)
	s.want(codeOK, "publication show -o json", `"insert": true`, `"name": "outbox_events"`)
	s.want(codeUsage, "publication drop", "give --yes")
	s.want(codeOK, "publication drop --yes", "dropped")
}

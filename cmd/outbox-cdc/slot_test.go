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

// listedSlot is what the tests read of a slot in JSON.
type listedSlot struct {
	Name      string   `json:"name"`
	Plugin    string   `json:"plugin"`
	Type      string   `json:"type"`
	Database  string   `json:"database"`
	Temporary bool     `json:"temporary"`
	Active    int      `json:"active_pid"`
	Status    string   `json:"wal_status"`
	Confirmed string   `json:"confirmed_flush_lsn"`
	Lag       *int64   `json:"lag_bytes"`
	Retained  *int64   `json:"retained_bytes"`
	LagTime   *float64 `json:"lag_seconds"`
	LagBound  string   `json:"lag_seconds_bound"`
	Client    *struct {
		User        string `json:"user"`
		Application string `json:"application_name"`
		Address     string `json:"address"`
	} `json:"client"`
	Record *struct {
		LastEvent *string `json:"last_event"`
	} `json:"record"`
}

// parse reads the JSON that a command has printed.
func parse[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// TestSlotListShowsEverySlot has slots of every kind on one server: each holds
// write-ahead log, whoever made it.
//
// Behaviours: R4
func TestSlotListShowsEverySlot(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{
		"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB",
	}})
	s := newShopOn(t, pg)
	s.sql("SELECT pg_create_logical_replication_slot('lost', 'pgoutput')")
	for range 3 {
		s.sql("SELECT pg_switch_wal()")
		s.sql("CREATE TABLE IF NOT EXISTS noise (x text); INSERT INTO noise VALUES ('x')")
	}
	s.sql("CHECKPOINT")
	s.want(codeOK, "init")
	s.sql("SELECT pg_create_logical_replication_slot('of_another', 'test_decoding')")
	s.sql("SELECT pg_create_physical_replication_slot('standby', true)")
	s.sql("SELECT pg_create_physical_replication_slot('standby_never_used')")
	s.sql("SELECT pg_create_physical_replication_slot('many_' || i) FROM generate_series(1, 25) i")
	const odd = "My \"Shop\"\n\té"
	s.sql("CREATE DATABASE " + pgx.Identifier{odd}.Sanitize())
	elsewhere, err := pgx.Connect(t.Context(), pg.DSN(odd)+"&application_name=the%20app")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close(context.Background())
	for _, sql := range []string{"SELECT pg_create_logical_replication_slot('elsewhere', 'pgoutput')", "SELECT pg_create_logical_replication_slot('held', 'pgoutput', true)"} {
		if _, err := elsewhere.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.sql("INSERT INTO noise SELECT 'x' FROM generate_series(1, 1000)")

	slots := make(map[string]listedSlot)
	for _, slot := range parse[[]listedSlot](t, s.want(codeOK, "slot list -o json").out) {
		slots[slot.Name] = slot
	}
	if want := 7 + 25; len(slots) != want {
		t.Errorf("got %d slots, want %d", len(slots), want)
	}
	for name, want := range map[string]listedSlot{
		s.slot:               {Plugin: "pgoutput", Type: "logical", Database: s.conn.Config().Database, Status: "reserved"},
		"lost":               {Plugin: "pgoutput", Type: "logical", Database: s.conn.Config().Database, Status: "lost"},
		"of_another":         {Plugin: "test_decoding", Type: "logical", Database: s.conn.Config().Database, Status: "reserved"},
		"elsewhere":          {Plugin: "pgoutput", Type: "logical", Database: odd, Status: "reserved"},
		"held":               {Plugin: "pgoutput", Type: "logical", Database: odd, Status: "reserved", Temporary: true},
		"standby":            {Type: "physical", Status: "reserved"},
		"standby_never_used": {Type: "physical"},
	} {
		got := slots[name]
		if got.Plugin != want.Plugin || got.Type != want.Type || got.Database != want.Database || got.Status != want.Status || got.Temporary != want.Temporary {
			t.Errorf("slot %s: got %+v, want %+v", name, got, want)
		}
		if got.Retained == nil || want.Status == "reserved" && *got.Retained <= 0 {
			t.Errorf("slot %s: got %v retained bytes", name, got.Retained)
		}
		if known := got.Lag != nil; known != (want.Type == "logical") {
			t.Errorf("slot %s: got the lag %v", name, got.Lag)
		}
	}
	held := slots["held"]
	if held.Active == 0 || held.Client == nil || held.Client.User != "postgres" || held.Client.Application != "the app" || held.Client.Address != "127.0.0.1" {
		t.Errorf("got the holder %d %+v", held.Active, held.Client)
	}
	if slots[s.slot].Record == nil || slots["lost"].Record != nil {
		t.Errorf("got the records %v and %v", slots[s.slot].Record, slots["lost"].Record)
	}

	table := s.want(codeOK, "slot list", "RETAINED", "LAG TIME", `"My \"Shop\"\n\té"`, fmt.Sprintf("%d postgres 127.0.0.1 the app", held.Active))
	if lines := strings.Count(table.out, "\n"); lines != len(slots)+1 || table.err != "" {
		t.Errorf("got %d lines for %d slots: %s%s", lines, len(slots), table.out, table.err)
	}
	for line := range strings.Lines(table.out) {
		if len(line) > 160 {
			t.Errorf("got a line of %d characters: %s", len(line), line)
		}
	}
	s.want(codeOK, "slot show", "RETAINED", "CONFIRMED", "pgoutput", "reserved")
	s.want(codeOK, "slot show --slot standby", "physical")
	s.want(codeOK, "slot show --slot lost", "lost")
	s.want(codeOK, "slot show --slot held", "temporary")
}

// TestSlotDropRefusesWhatIsNotOurs drops nothing that is in use or may belong to
// somebody else, unless it has to.
//
// Behaviours: R4
func TestSlotDropRefusesWhatIsNotOurs(t *testing.T) {
	s := newShop(t)
	s.want(codeOK, "init")
	holder, err := pgx.Connect(t.Context(), s.dsn+"&application_name=holder")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	other := s.slot + "_other"
	if _, err := holder.Exec(t.Context(), "SELECT pg_create_logical_replication_slot($1, 'pgoutput', true)", other); err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprint(holder.PgConn().PID())
	s.want(codeBusy, "slot drop --yes --slot "+other, "in use by process "+pid, "user postgres, application holder, from 127.0.0.1", "--force")
	s.want(codeUsage, "slot drop --force --slot "+other, "gives up ", "ends process "+pid, "give --yes")
	type dropped struct {
		Slot, Confirmed string
		GivenUp         *int64   `json:"given_up_bytes"`
		Ended           []string `json:"ended_holders"`
	}
	got := parse[dropped](t, s.want(codeOK, "slot drop --yes --force -o json --slot "+other).out)
	if got.Slot != other || got.GivenUp == nil || len(got.Ended) != 1 || !strings.Contains(got.Ended[0], "process "+pid+" of the server (user postgres, application holder") {
		t.Errorf("got %+v", got)
	}
	s.sql("SELECT pg_create_logical_replication_slot($1, 'test_decoding')", other)
	s.want(codeUsage, "slot drop --yes --slot "+other, "has no record of outbox-cdc and may belong to something else", "--force")
	s.want(codeOK, "slot drop --yes --force --slot "+other, "dropped at ")
	s.want(codeGap, "slot drop --yes --slot "+other, "does not exist")
	got = parse[dropped](t, s.want(codeOK, "slot drop --yes -o json").out)
	if got.Slot != s.slot || got.Ended != nil {
		t.Errorf("got %+v", got)
	}
	if s.slots() != "0" {
		t.Error("the slot is still there")
	}
}

// advanced is what slot advance prints.
type advanced struct {
	From, To   string
	Rows       *int64 `json:"rows"`
	Complete   bool   `json:"rows_complete"`
	NotCounted string `json:"not_counted"`
	Tables     []struct {
		Table string
		Rows  int64
	}
}

// insert commits rows to the outbox.
func (s *shop) insert(rows int) {
	s.t.Helper()
	s.sql(`INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
SELECT 'order', i::text, 'OrderPlaced', '{}' FROM generate_series(1, $1) i`, rows)
}

func TestSlotAdvanceSaysWhatIsGivenUp(t *testing.T) {
	s := newShop(t)
	s.want(codeOK, "init")
	s.insert(3)
	const what = `3 rows (3 of table "public"."outbox_events")`
	s.want(codeUsage, "slot advance --to now", "will never be published", what, "give --yes")
	s.want(codeUsage, "slot advance --yes", "--to must be an LSN such as 16/B374D848, or now")
	s.want(codeUsage, "slot advance --yes --to yesterday", `got "yesterday"`)
	got := parse[advanced](t, s.want(codeOK, "slot advance --to now --yes -o json").out)
	if got.Rows == nil || *got.Rows != 3 || !got.Complete || len(got.Tables) != 1 || got.From >= got.To && len(got.From) == len(got.To) {
		t.Errorf("got %+v", got)
	}
	s.insert(2)
	s.want(codeOK, "slot advance --to now --yes", "moved from "+got.To+" to ", "past 2 rows")
	s.want(codeOK, "slot advance --to now --yes", "past no row")

	s.insert(1)
	s.sql("SELECT pg_logical_emit_message(true, 'outbox', '{}') FROM generate_series(1, 2)")
	s.want(codeUsage, "slot advance --to now --message-prefix outbox", `1 row (1 of table "public"."outbox_events") and 2 messages`)
	withMessages := parse[struct{ Rows, Messages int64 }](t, s.want(codeOK, "slot advance --to now --yes -o json --message-prefix outbox").out)
	if withMessages.Rows != 1 || withMessages.Messages != 2 {
		t.Errorf("got %+v", withMessages)
	}

	// Without a publication there is nothing to count by.
	s.insert(1)
	got = parse[advanced](t, s.want(codeOK, "slot advance --to now --yes -o json --publication nowhere").out)
	if got.Rows != nil || got.Complete || !strings.Contains(got.NotCounted, `publication "nowhere" does not exist`) || got.Tables == nil {
		t.Errorf("got %+v", got)
	}
	other := s.slot + "_other"
	s.sql("SELECT pg_create_logical_replication_slot($1, 'test_decoding')", other)
	s.want(codeUsage, "slot advance --to now --yes --slot "+other, `plugin "test_decoding", not pgoutput`)
	s.sql("SELECT pg_drop_replication_slot($1)", other)

	holder, err := pgx.Connect(t.Context(), s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	if _, err := holder.Exec(t.Context(), "SELECT pg_create_physical_replication_slot($1, true, true)", other); err != nil {
		t.Fatal(err)
	}
	s.want(codeUsage, "slot advance --to now --yes --slot "+other, "is a physical slot")
}

func TestCommandsPrintJSON(t *testing.T) {
	s := newShop(t)
	type initialized struct {
		Steps []initStep `json:"steps"`
		Notes []string   `json:"notes"`
	}
	type changed struct {
		Publication string   `json:"publication"`
		Statements  []string `json:"statements"`
	}
	s.sql("CREATE TABLE outbox_events (id bigint NOT NULL, aggregate_type text, aggregate_id text NOT NULL, event_type text, payload json)")
	s.sql("INSERT INTO outbox_events SELECT i, 'order', i FROM generate_series(1, 17) i")
	made := parse[changed](t, s.want(codeOK, "publication create -o json").out)
	if len(made.Statements) != 1 || !strings.HasPrefix(made.Statements[0], "CREATE PUBLICATION ") {
		t.Errorf("got %+v", made)
	}
	if again := parse[changed](t, s.want(codeOK, "publication create -o json").out); again.Statements == nil || len(again.Statements) != 0 {
		t.Errorf("got %+v", again)
	}
	first := s.want(codeOK, "init -o json", "not published: 17\n")
	got := parse[initialized](t, first.out)
	if len(got.Steps) != 5 || got.Steps[0].Outcome != "exists" || got.Steps[4].Kind != "slot" || len(got.Notes) != 1 || !strings.Contains(first.err, got.Notes[0]) {
		t.Errorf("got %+v", got)
	}
	created := parse[listedSlot](t, s.want(codeOK, "slot show -o json").out)
	if created.Name != s.slot || created.Record == nil {
		t.Errorf("got %+v", created)
	}
	if dropped := parse[changed](t, s.want(codeOK, "publication drop --yes -o json").out); len(dropped.Statements) != 1 {
		t.Errorf("got %+v", dropped)
	}
	// What was done before something failed was done.
	s.sql("CREATE TABLE broken (id bigint)")
	failed := parse[initialized](t, s.want(codeUsage, "init -o json --table broken", "has no column").out)
	if len(failed.Steps) != 1 {
		t.Errorf("got %+v", failed)
	}
	if sql := parse[map[string][]string](t, s.want(codeOK, "init --print-sql -o json").out); len(sql["sql"]) != 5 {
		t.Errorf("got %q", sql)
	}
	for _, command := range []string{"slot list", "slot show", "slot create", "slot drop", "slot advance --to now", "publication create", "publication show", "publication drop", "init"} {
		s.want(codeUsage, command+" -o xml", `-o must be text or json, got "xml"`)
	}
}

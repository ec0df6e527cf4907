//go:build linux || darwin

package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

const operationsPage = "../docs/operations.md"

func TestOperationsPageUsesCommandsThatExist(t *testing.T) {
	text := readText(t, operationsPage)
	known := words(help(t, "run"))
	// Only in code: prose may begin a sentence with the name of the program.
	for _, found := range regexp.MustCompile("`outbox-cdc ([a-z]+(?: [a-z]+)?)((?: --?[a-z-]+(?: [A-Z]+| [a-z]+)?)*)`").FindAllStringSubmatch(text, -1) {
		command := words(help(t, strings.Fields(found[1])...))
		for _, flag := range regexp.MustCompile(`--?[a-z-]+`).FindAllString(found[2], -1) {
			if !command[flag] {
				t.Errorf("outbox-cdc %s has no flag %s", found[1], flag)
			}
			known[flag] = true
		}
	}
	for _, flag := range regexp.MustCompile("`(--[a-z-]+)[ `]").FindAllStringSubmatch(text, -1) {
		if !known[flag[1]] && flag[1] != "--failover" { // of init
			t.Errorf("there is no flag %s", flag[1])
		}
	}
	for _, path := range regexp.MustCompile("`(/[a-z]+)`").FindAllStringSubmatch(text, -1) {
		if !known[path[1]] {
			t.Errorf("the help of --http does not name %s", path[1])
		}
	}
}

func TestOperationsPageLinksToWhatExists(t *testing.T) {
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(readText(t, operationsPage), -1) {
		if _, err := os.Stat(filepath.Join("../docs", link[1])); err != nil {
			t.Error(err)
		}
	}
}

// The statements of the page do what it says, with the tables that init creates.
func TestOperationsPageRepublishes(t *testing.T) {
	server := harness.SharedPostgres(t)
	database := harness.NewDatabase(t, server)
	slot := harness.Name(t)
	if got := harness.RunRelay(t, nil, "init", "--dsn", server.DSN(database), "--slot", slot); got.Code != 0 {
		t.Fatalf("init: got exit code %d and %q", got.Code, got.Stderr)
	}
	conn, err := server.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(statements string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statements); err != nil {
			t.Fatalf("%v in\n%s", err, statements)
		}
	}
	exec(`INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload, created_at)
  SELECT 'order', n::text, 'OrderPlaced', '{"total": 1.50}', '2026-03-01 09:00+00'::timestamptz + n * interval '1 hour' FROM generate_series(0, 4) n;
INSERT INTO outbox_dead_letters (slot, position, commit_lsn, commit_time, table_name, event_id, reason, error, columns)
  SELECT 'orders', '1', '0/1', now(), 'outbox_events', id::text, 'too_large', 'too large', json_build_object('id', id::text,
    'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id, 'event_type', event_type, 'payload', payload::text)
  FROM outbox_events WHERE aggregate_id = '4'`)

	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(readText(t, operationsPage), -1)
	if len(blocks) != 4 {
		t.Fatalf("got %d blocks of SQL, want 4", len(blocks))
	}
	for _, b := range blocks {
		exec(strings.ReplaceAll(b[1], "id = 42", "id = 1"))
	}
	// Those of 10:00 and 11:00, and the dead letter, were inserted again.
	rows, err := conn.Query(t.Context(), `SELECT aggregate_id FROM outbox_events
  WHERE payload = '{"total": 1.50}' ORDER BY xmin::text::bigint, aggregate_id`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if order := strings.Join(got, " "); order != "0 3 4 1 2" {
		t.Errorf("rows in the order of their insertion: got %s, want 0 3 4 1 2", order)
	}
	var state string
	if err := conn.QueryRow(t.Context(), "SELECT state FROM outbox_dead_letters").Scan(&state); err != nil || state != "retried" {
		t.Errorf("the dead letter is %s, %v", state, err)
	}
}

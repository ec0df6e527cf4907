//go:build linux || darwin

package sql

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// Every statement can be executed again, and with the grants a role that owns
// nothing can do what a run does.
func TestDDL(t *testing.T) {
	pg := harness.SharedPostgres(t)
	db, role := harness.NewDatabase(t, pg), harness.Name(t)
	conn, err := pg.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(ddl string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), ddl); err != nil {
			t.Fatalf("%v in\n%s", err, ddl)
		}
	}
	lean := Outbox{Schema: "My-App", Name: "OutBox Événements", Role: role, Database: db}
	full := Outbox{Schema: "My-App", Name: "full"}
	exec(`CREATE SCHEMA "My-App"; CREATE ROLE ` + role)
	t.Cleanup(func() { pg.Exec(context.Background(), "postgres", "DROP ROLE "+role) })
	for range 2 {
		exec(lean.Table(false))
		exec(full.Table(true))
		exec(lean.Checkpoint())
		exec(lean.DeadLetters())
		exec(lean.Grants())
	}
	columns := columnsOf(t, conn, "OutBox Événements")
	if want := []string{"aggregate_id", "aggregate_type", "created_at", "event_type", "id", "metadata", "payload"}; !slices.Equal(columns, want) {
		t.Errorf("lean: got %q, want %q", columns, want)
	}
	for _, name := range append(columns, "published_at", "retry_count", "status") {
		if !slices.Contains(columnsOf(t, conn, "full"), name) {
			t.Errorf("full: no column %s", name)
		}
	}
	exec("SET ROLE " + role)
	exec(`SELECT * FROM "My-App"."OutBox Événements"`)
	exec(`INSERT INTO "My-App".outbox_cdc_checkpoint (slot, confirmed, system_id, timeline, session, clean, tables) VALUES ('s', '0/1', '', 1, '', true, '{}')`)
	exec(`UPDATE "My-App".outbox_cdc_checkpoint SET clean = false WHERE slot = 's'`)
	const letter = `INSERT INTO "My-App".outbox_dead_letters (slot, position, commit_lsn, commit_time, table_name, reason, error, columns)
VALUES ('s', 'p', '0/1', now(), 't', 'r', 'e', '{"id": "1", "payload": null}') ON CONFLICT (slot, position) DO NOTHING`
	exec(letter)
	exec(letter)
	exec(`UPDATE "My-App".outbox_dead_letters SET state = 'retried', updated_at = now()`)
	exec("RESET ROLE; DROP OWNED BY " + role)
}

func columnsOf(t *testing.T, conn *pgx.Conn, table string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT attname::text FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY 1", Qualified("My-App", table))
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

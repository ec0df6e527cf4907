//go:build linux || darwin

package sql

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/decoder"
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
		exec(lean.Table(Form{}))
		exec(full.Table(Form{Full: true}))
		for name, form := range forms {
			exec(Outbox{Schema: "My-App", Name: name}.Table(form))
		}
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
	for name, form := range forms {
		columns := columnsOf(t, conn, name)
		mapping, _ := decoder.Preset(form.Preset)
		if missing := (decoder.Table{Mapping: mapping}).MissingColumns(columns); len(missing) > 0 {
			t.Errorf("%s has no column %q", name, missing)
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

// forms are tables of every preset. The names are as long as they can be, so
// that those of indexes and partitions have to give way.
var forms = map[string]Form{
	"messages":                        {Preset: decoder.PresetOutboxMessages},
	"messages full":                   {Preset: decoder.PresetOutboxMessages, Full: true, ID: "text"},
	"debezium":                        {Preset: decoder.PresetDebezium, ID: "bigint"},
	"store":                           {Preset: decoder.PresetEventStore},
	strings.Repeat("é", 31):           {Full: true},
	strings.Repeat("x", maxNameBytes): {Preset: decoder.PresetEventStore, Partitions: 11},
	strings.Repeat("x", maxNameBytes-1) + "y": {Full: true},
	"short event store":                       {Preset: decoder.PresetEventStore, Partitions: 1},
}

// In every form an event store refuses what is appended to a stale version, and
// the id of other tables is given by the server unless it is a text.
func TestForms(t *testing.T) {
	pg := harness.SharedPostgres(t)
	conn, err := pg.Connect(t.Context(), harness.NewDatabase(t, pg))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, partitions := range []int{0, 1, 7} {
		table := Outbox{Schema: "public", Name: "store" + strconv.Itoa(partitions)}
		ddl := table.Table(Form{Preset: decoder.PresetEventStore, Partitions: partitions})
		const append20 = " (stream_id, stream_version, event_type, event_data) SELECT 'order-' || i, 1, 'Placed', '{}' FROM generate_series(1, 20) i"
		if _, err := conn.Exec(t.Context(), ddl+"INSERT INTO "+table.Name+append20); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Exec(t.Context(), "INSERT INTO "+table.Name+" (stream_id, stream_version, event_type, event_data) VALUES ('order-3', 1, 'Placed', '{}')")
		if refused := new(pgconn.PgError); !errors.As(err, &refused) || refused.Code != "23505" {
			t.Errorf("%d partitions: an event of a version that is there gives %v", partitions, err)
		}
	}
	for id, want := range map[string]string{"uuid": "uuid", "bigint": "bigint", "text": "text"} {
		var got string
		ddl := Outbox{Schema: "public", Name: id}.Table(Form{Preset: decoder.PresetDebezium, ID: id})
		insert := "INSERT INTO public." + id + " (aggregatetype, aggregateid, type) VALUES ('a', 'b', 'c')"
		if id == "text" {
			insert = "INSERT INTO public." + id + " VALUES ('id', 'a', 'b', 'c')"
		}
		if _, err := conn.Exec(t.Context(), ddl+insert); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "SELECT pg_typeof(id)::text FROM public."+id).Scan(&got); err != nil || got != want {
			t.Errorf("got an id of type %s, %v, want %s", got, err, want)
		}
	}
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

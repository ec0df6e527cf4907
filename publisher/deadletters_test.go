//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/sql"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// deadLettersOf returns the dead letters of a database of its own, as a role
// without rights, and a connection of the owner.
func deadLettersOf(t *testing.T) (*DeadLetters, *pgx.Conn) {
	t.Helper()
	server := harness.SharedPostgres(t)
	database, role := harness.NewDatabase(t, server), harness.Name(t)
	owner, err := server.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		owner.Exec(ctx, "DROP OWNED BY "+role)
		if _, err := owner.Exec(ctx, "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
		owner.Close(ctx)
	})
	execute(t, owner, "CREATE ROLE "+role+" LOGIN")
	open := func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.Connect(ctx, server.DSNVia(server.Addr(), url.User(role), database))
	}
	d := NewDeadLetters(open, "public", "orders")
	t.Cleanup(d.Close)
	return d, owner
}

func execute(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// oneRow returns a row as the server sends it.
func oneRow(t *testing.T, e event) decoder.Row {
	t.Helper()
	h := &history{}
	h.commit(e)
	d := decoder.New([]decoder.Table{{Schema: "public", Name: "outbox_events"}})
	chunk := decoder.NewPool().Get()
	for _, message := range [][]byte{relationMessage(), beginMessage(h.transactions[0]), insertMessage(e)} {
		if err := d.Decode(message, chunk); err != nil {
			t.Fatal(err)
		}
	}
	return chunk.Entries[0].Row
}

func TestDeadLettersCheck(t *testing.T) {
	d, owner := deadLettersOf(t)
	check := func(kind error, remedy string) {
		t.Helper()
		err := d.use(t.Context(), func(conn *pgx.Conn) error { return d.Check(t.Context(), conn) })
		if !errors.Is(err, kind) || kind != nil && (!strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "--on-poison halt")) {
			t.Errorf("got %v, want %v that names %q and --on-poison halt", err, kind, remedy)
		}
	}
	check(ErrSetup, `"outbox-cdc init"`)
	execute(t, owner, sql.Outbox{Schema: "public", Name: "outbox_events"}.DeadLetters())
	check(ErrDenied, `GRANT SELECT, INSERT ON "public"."outbox_dead_letters" TO "t`)
	execute(t, owner, "GRANT SELECT, INSERT ON outbox_dead_letters TO public")
	check(nil, "")
}

func TestDeadLettersStore(t *testing.T) {
	d, owner := deadLettersOf(t)
	execute(t, owner, sql.Outbox{Schema: "public", Name: "outbox_events"}.DeadLetters())
	execute(t, owner, "GRANT SELECT, INSERT ON outbox_dead_letters TO public")
	letter := DeadLetter{
		Position: decoder.Position{CommitLSN: 0x1234, Index: 7, CommitTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro()},
		Row:      oneRow(t, event{id: "17", aggregateType: nil, aggregateID: `O'Neil "é" \x00`, eventType: "<b>&", payload: `{"a": 1.10}`}),
		Poison:   poison(ReasonNoAggregateType, "the topic needs it"),
	}
	for range 2 { // the same position is kept once
		if err := d.Store(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
	}
	// Somebody ends the connection: one attempt is lost, the next has a new one.
	execute(t, owner, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	second := letter
	second.Position.Index++
	second.Topic = "outbox.event.or der"
	harness.Eventually(t, 10*time.Second, func() error { return d.Store(t.Context(), second) })

	type stored struct {
		Slot, Position, CommitLSN, TableName, EventID, Topic, Reason, Error, Columns, State string
		CommitTime                                                                          time.Time
	}
	rows, err := owner.Query(t.Context(), `SELECT slot, position, commit_lsn::text, table_name, event_id, coalesce(topic, 'NULL'), reason, error, columns::text, state, commit_time
FROM outbox_dead_letters ORDER BY position`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	if err != nil {
		t.Fatal(err)
	}
	want := stored{
		Slot: "orders", Position: "0000000000001234-00000007-" + letter.Position.String()[26:], CommitLSN: "0/1234",
		TableName: `"public"."outbox_events"`, EventID: "17", Topic: "NULL",
		Reason: "null_aggregate_type", Error: "the topic needs it", State: "new",
		Columns:    `{"id":"17","aggregate_type":null,"aggregate_id":"O'Neil \"é\" \\x00","event_type":"<b>&","payload":"{\"a\": 1.10}","metadata":null}`,
		CommitTime: time.UnixMicro(letter.Position.CommitTime),
	}
	if len(got) != 2 {
		t.Fatalf("got %d letters, want 2: %+v", len(got), got)
	}
	if !got[0].CommitTime.Equal(want.CommitTime) {
		t.Errorf("got commit time %s, want %s", got[0].CommitTime, want.CommitTime)
	}
	got[0].CommitTime, want.CommitTime = time.Time{}, time.Time{}
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	if got[1].Topic != second.Topic {
		t.Errorf("got topic %q, want what routing gave: %q", got[1].Topic, second.Topic)
	}
}

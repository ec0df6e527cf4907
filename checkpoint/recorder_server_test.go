//go:build linux || darwin

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/sql"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

const schema = "My-App"

// newTable makes a database with the record's table.
func newTable(t *testing.T, pg *harness.Postgres) (dsn string, conn *pgx.Conn) {
	t.Helper()
	dsn = pg.DSN(harness.NewDatabase(t, pg))
	return dsn, makeTable(t, dsn)
}

func makeTable(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	for _, ddl := range []string{`CREATE SCHEMA "My-App"`, sql.Outbox{Schema: schema, Name: "outbox"}.Checkpoint()} {
		if _, err := conn.Exec(t.Context(), ddl); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// progress is what the publisher of a session has confirmed.
type progress struct{ lsn, at atomic.Int64 }

func (p *progress) latest() (pglogrepl.LSN, time.Time) {
	if at := p.at.Load(); at != 0 {
		return pglogrepl.LSN(p.lsn.Load()), time.UnixMicro(at)
	}
	return pglogrepl.LSN(p.lsn.Load()), time.Time{}
}

func newRecorder(t *testing.T, dsn, session string, p *progress) *Recorder {
	r := &Recorder{
		Open:   func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn) },
		Schema: schema,
		Record: Record{Slot: "orders", Confirmed: 0x1000, SystemID: "7", Timeline: 1, Session: session, Tables: []string{`"a"."b"`}},
		Latest: p.latest,
		Log:    slog.New(slog.DiscardHandler),

		interval: 10 * time.Millisecond,
	}
	t.Cleanup(r.Close)
	return r
}

// run starts the recorder and waits for its first record.
func run(t *testing.T, r *Recorder) (stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	began, end := make(chan struct{}), make(chan error, 1)
	go func() { end <- r.Run(ctx, func() { close(began) }) }()
	select {
	case <-began:
	case <-time.After(10 * time.Second):
		t.Fatal("the record was not written")
	}
	return cancel, end
}

func load(t *testing.T, conn *pgx.Conn) *Record {
	t.Helper()
	rec, err := Load(t.Context(), conn, schema, "orders")
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestRecorderFollowsASession(t *testing.T) {
	dsn, conn := newTable(t, harness.SharedPostgres(t))
	if rec := load(t, conn); rec != nil {
		t.Errorf("a record before the first: %+v", rec)
	}
	var p progress
	r := newRecorder(t, dsn, "first", &p)
	stop, ended := run(t, r)
	want := Record{Slot: "orders", Confirmed: 0x1000, SystemID: "7", Timeline: 1, Session: "first", Tables: []string{`"a"."b"`}}
	if got := load(t, conn); !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	// Markers alone are not worth a write; an event is.
	p.lsn.Store(0x2000)
	at := time.UnixMicro(1_700_000_000_123_456)
	p.at.Store(at.UnixMicro())
	p.lsn.Store(0x3000)
	harness.Eventually(t, 10*time.Second, func() error {
		if got := load(t, conn); got.Confirmed != 0x3000 || !got.CommitTime.Equal(at) || got.Clean {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := r.End(t.Context(), 0x3500); err != nil {
		t.Fatal(err)
	}
	if got := load(t, conn); got.Confirmed != 0x3500 || !got.Clean || got.Session != "first" || !got.CommitTime.Equal(at) {
		t.Errorf("got %+v", got)
	}
	// The next session begins where the slot stands.
	next := newRecorder(t, dsn, "second", new(progress))
	next.Record.Confirmed = 0x3400
	run(t, next)
	if got := load(t, conn); got.Confirmed != 0x3400 || got.Clean || got.Session != "second" || !got.CommitTime.Equal(at) {
		t.Errorf("got %+v", got)
	}
	// What is left of the first one writes nothing any more.
	if err := r.End(t.Context(), 0x9000); !errors.Is(err, ErrOvertaken) {
		t.Errorf("got %v, want ErrOvertaken", err)
	}
}

func TestAnIdleDatabaseStaysIdle(t *testing.T) {
	dsn, conn := newTable(t, harness.SharedPostgres(t))
	var p progress
	r := newRecorder(t, dsn, "s", &p)
	var looks atomic.Int64
	r.Latest = func() (pglogrepl.LSN, time.Time) {
		looks.Add(1)
		p.lsn.Add(100)
		return p.latest()
	}
	run(t, r)
	written := func() (ctid string) {
		if err := conn.QueryRow(t.Context(), `SELECT ctid::text FROM "My-App".outbox_cdc_checkpoint`).Scan(&ctid); err != nil {
			t.Fatal(err)
		}
		return ctid
	}
	before := written()
	harness.Eventually(t, 10*time.Second, func() error {
		if looks.Load() < 20 {
			return errors.New("the recorder does not look")
		}
		return nil
	})
	if after := written(); after != before {
		t.Error("the record was written although no event was confirmed")
	}
}

func TestAWriteDoesNotWaitForAStandby(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{})
	// The server's own database: one that is dropped would wait for the standby.
	dsn := pg.DSN("postgres")
	makeTable(t, dsn)
	if err := pg.Configure(map[string]string{"synchronous_standby_names": "nobody"}); err != nil {
		t.Fatal(err)
	}
	if err := pg.Reload(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 10*time.Second, func() error {
		names, err := harness.QueryValue[string](t.Context(), pg, "postgres", "SHOW synchronous_standby_names")
		if err == nil && names != "nobody" {
			err = errors.New("not reloaded")
		}
		return err
	})
	r := newRecorder(t, dsn, "s", new(progress))
	stop, ended := run(t, r)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := r.End(t.Context(), 0x2000); err != nil {
		t.Fatal(err)
	}
}

func TestAcceptRewritesTheRecord(t *testing.T) {
	dsn, conn := newTable(t, harness.SharedPostgres(t))
	run(t, newRecorder(t, dsn, "s", new(progress)))
	if err := Accept(t.Context(), conn, schema, "orders", 0x5000, false); err != nil {
		t.Fatal(err)
	}
	rec := load(t, conn)
	if rec.Confirmed != 0x5000 || !rec.Clean || rec.Session != "" || rec.SystemID == "" || len(rec.Tables) != 1 {
		t.Errorf("advanced: got %+v", rec)
	}
	if err := Accept(t.Context(), conn, schema, "orders", 0x6000, true); err != nil {
		t.Fatal(err)
	}
	if rec := load(t, conn); rec.Confirmed != 0x6000 || len(rec.Tables) != 0 {
		t.Errorf("created: got %+v", rec)
	}
}

func TestWithoutTableOrRightGapDetectionIsOff(t *testing.T) {
	pg := harness.SharedPostgres(t)
	_, conn := newTable(t, pg)
	role := harness.Name(t)
	if _, err := conn.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN; GRANT USAGE ON SCHEMA \"My-App\" TO "+role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	dsn := pg.DSNVia(pg.Addr(), url.User(role), conn.Config().Database)
	weak, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer weak.Close(context.Background())
	if _, err := Load(t.Context(), weak, schema, "orders"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("read without a right: %v", err)
	}
	if err := Accept(t.Context(), conn, schema, "orders", 0x1000, true); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `GRANT SELECT ON "My-App".outbox_cdc_checkpoint TO `+role); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), weak, schema, "orders"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("read without the right to write: %v", err)
	}
	if _, err := Load(t.Context(), conn, "public", "orders"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("read without a table: %v", err)
	}
	// The slot may move all the same.
	r := newRecorder(t, dsn, "s", new(progress))
	_, ended := run(t, r)
	if err := <-ended; !errors.Is(err, ErrUnavailable) {
		t.Errorf("written without a right: %v", err)
	}
}

func TestRecorderTriesAgain(t *testing.T) {
	dsn, _ := newTable(t, harness.SharedPostgres(t))
	r := newRecorder(t, dsn, "s", new(progress))
	open, tries := r.Open, 0
	r.Open = func(ctx context.Context) (*pgx.Conn, error) {
		if tries++; tries == 1 {
			return nil, errors.New("the server is away")
		}
		return open(ctx)
	}
	run(t, r)
	if tries != 2 {
		t.Errorf("%d connections, want 2", tries)
	}
}

//go:build linux || darwin

package replication

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/sql"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// outbox is a database with an outbox table, its publication and its slot.
type outbox struct {
	t    *testing.T
	pg   *harness.Postgres
	conn *pgx.Conn // to the database, as the superuser
	cfg  Config
}

// newOutbox makes everything that Preflight asks for, with our own functions.
func newOutbox(t *testing.T, pg *harness.Postgres) *outbox {
	t.Helper()
	o := newDatabase(t, pg)
	o.exec(sql.Outbox{Schema: "public", Name: "outbox_events"}.Table(sql.Form{}))
	if _, err := CreatePublication(t.Context(), o.conn, o.cfg.Publication, o.cfg.Tables); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateSlot(t.Context(), o.conn, o.cfg.Slot, CreateSlotOptions{}); err != nil {
		t.Fatal(err)
	}
	return o
}

// newDatabase makes an empty database and a configuration for it.
func newDatabase(t *testing.T, pg *harness.Postgres) *outbox {
	t.Helper()
	db := harness.NewDatabase(t, pg)
	o := &outbox{t: t, pg: pg, cfg: Config{
		DSN:         pg.DSN(db),
		Slot:        db,
		Publication: "outbox",
		Tables:      []decoder.Table{{Schema: "public", Name: "outbox_events"}},
	}}
	conn, err := o.cfg.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.conn = conn
	t.Cleanup(func() { conn.Close(context.Background()) })
	return o
}

func (o *outbox) exec(sql string, args ...any) {
	o.t.Helper()
	if _, err := o.conn.Exec(o.t.Context(), sql, args...); err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
}

// insert commits n events in one transaction.
func (o *outbox) insert(n int) {
	o.t.Helper()
	o.exec(`INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
SELECT 'order', g::text, 'OrderCreated', '{"n": 1}' FROM generate_series(1, $1) g`, n)
}

func (o *outbox) slot() Slot {
	o.t.Helper()
	slot, err := ShowSlot(o.t.Context(), o.conn, o.cfg.Slot)
	if err != nil {
		o.t.Fatal(err)
	}
	return slot
}

// session is a stream that is being run, with a publisher that confirms what
// it is told to.
type session struct {
	*Stream
	srv       *Server
	out       chan *decoder.Chunk
	confirmed atomic.Uint64
	stop      context.CancelFunc
	ended     chan error
	close     func()
}

// preflight is Preflight; the connections are closed when the test ends.
func (o *outbox) preflight() (*Server, error) {
	srv, err := Preflight(o.t.Context(), o.cfg)
	if err == nil {
		o.t.Cleanup(srv.Close)
	}
	return srv, err
}

// open starts a session.
func (o *outbox) open() *session {
	o.t.Helper()
	srv, err := o.preflight()
	if err != nil {
		o.t.Fatal(err)
	}
	stream, err := OpenStream(o.t.Context(), o.cfg, srv, decoder.NewPool())
	if err != nil {
		o.t.Fatal(err)
	}
	s := &session{Stream: stream, srv: srv, out: make(chan *decoder.Chunk, 4), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	run := make(chan struct{})
	go func() {
		defer close(run)
		s.ended <- stream.Run(ctx, s.out, s.position)
	}()
	s.close = sync.OnceFunc(func() {
		cancel()
		<-run
		stream.Close()
	})
	o.t.Cleanup(s.close)
	return s
}

func (s *session) position() pglogrepl.LSN { return pglogrepl.LSN(s.confirmed.Load()) }

// consume takes chunks and confirms their markers until n events have come.
func (s *session) consume(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for have := 0; have < n; {
		select {
		case c := <-s.out:
			have += s.take(c)
		case err := <-s.ended:
			t.Fatalf("the session ended: %v", err)
		case <-deadline:
			t.Fatalf("%d of %d events came", have, n)
		}
	}
}

// take confirms the markers of a chunk and returns the number of its events.
func (s *session) take(c *decoder.Chunk) (events int) {
	for _, e := range c.Entries {
		if e.Row.Relation() != nil {
			events++
		}
		if e.Marker != 0 {
			s.confirmed.Store(uint64(e.Marker))
		}
	}
	c.Release()
	return events
}

// drainUntil goes on taking chunks until condition holds.
func (s *session) drainUntil(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		select {
		case c := <-s.out:
			s.take(c)
		case err := <-s.ended:
			t.Fatalf("the session ended: %v", err)
		case <-tick.C:
			if last = condition(); last == nil {
				return
			}
		case <-deadline:
			t.Fatal(last)
		}
	}
}

// finish stops the session in order.
func (s *session) finish(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Fatalf("Run: %v", err)
	}
	published := make(chan struct{})
	close(published)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Finish(ctx, s.position, published); err != nil {
		t.Fatalf("Finish: %v", err)
	}
	s.close()
}

// at reports a slot that does not stand at lsn.
func (o *outbox) at(lsn pglogrepl.LSN) error {
	if got := o.slot().Confirmed; got != lsn {
		return fmt.Errorf("the slot stands at %s, want %s", got, lsn)
	}
	return nil
}

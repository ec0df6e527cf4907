//go:build linux || darwin

package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/sql"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestStreamMovesTheSlotToWhatWasConfirmed(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	s := o.open()
	o.insert(3)
	o.insert(2)
	s.consume(t, 5)
	s.drainUntil(t, func() error { return o.at(s.position()) })
	// Only other tables: the slot follows without an event.
	o.exec("CREATE TABLE noise AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
	end, err := walEnd(t.Context(), o.conn)
	if err != nil {
		t.Fatal(err)
	}
	s.drainUntil(t, func() error {
		if got := o.slot().Confirmed; got < end {
			return fmt.Errorf("the slot stands at %s, want %s", got, end)
		}
		return nil
	})
}

func TestStreamLeavesWithItsLastStatusUnderABacklog(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	s := o.open()
	for range 3 {
		o.insert(1)
	}
	s.consume(t, 3)
	last := s.position()
	for range 40 {
		o.insert(2000)
	}
	// The publisher takes nothing more, so the sockets fill up.
	harness.Eventually(t, 10*time.Second, func() error {
		if len(s.out) < cap(s.out) {
			return fmt.Errorf("%d chunks are waiting", len(s.out))
		}
		return nil
	})
	s.finish(t)
	if got := o.slot().Confirmed; got < last {
		t.Errorf("the slot stands at %s, confirmed was %s", got, s.position())
	}
	if err := o.at(s.position()); err != nil {
		t.Error(err)
	}
	again := o.open()
	again.consume(t, 80000)
}

func TestStreamLetsTheServerStop(t *testing.T) {
	for _, tt := range []struct {
		name    string
		confirm bool
	}{
		{"everything confirmed", true},
		{"nothing confirmed", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOutbox(t, harness.NewPostgres(t, harness.PostgresConfig{}))
			s := o.open()
			o.insert(10)
			if tt.confirm {
				s.consume(t, 10)
				s.drainUntil(t, func() error { return o.at(s.position()) })
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			go func() {
				for c := range s.out {
					if tt.confirm {
						s.take(c)
					}
				}
			}()
			took, err := o.pg.Stop(ctx, harness.Fast)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("stopped in %s: %v", took, <-s.ended)
			if took > 5*time.Second {
				t.Errorf("the server took %s to stop", took)
			}
		})
	}
}

// With a publisher that is blocked for long the stream cannot read that the
// server wants to stop; the guard notices.
func TestGuardLetsTheServerStopWhileThePublisherIsBlocked(t *testing.T) {
	o := newOutbox(t, harness.NewPostgres(t, harness.PostgresConfig{}))
	for range 40 {
		o.insert(2000)
	}
	s := o.open()
	g := s.guard(t, o.cfg)
	harness.Eventually(t, 10*time.Second, func() error {
		if len(s.out) < cap(s.out) {
			return fmt.Errorf("%d chunks are waiting", len(s.out))
		}
		return nil
	})
	guarded := make(chan error, 1)
	go func() {
		guarded <- g.Run(t.Context())
		s.close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	took, err := o.pg.Stop(ctx, harness.Fast)
	if err != nil || took > 5*time.Second {
		t.Errorf("the server took %s to stop (%v)", took, err)
	}
	if err := <-guarded; err == nil {
		t.Error("the guard noticed nothing")
	}
}

// REPLICATION is enough to stream; not even SELECT on the table is needed.
func TestARoleThatMayOnlyReplicateStreams(t *testing.T) {
	pg := harness.SharedPostgres(t)
	o := newOutbox(t, pg)
	role := harness.Name(t)
	o.exec("CREATE ROLE " + role + " LOGIN REPLICATION")
	t.Cleanup(func() { pg.Exec(context.Background(), "postgres", "DROP ROLE "+role) })
	o.cfg.DSN = pg.DSNVia(pg.Addr(), url.User(role), o.cfg.Slot)
	s := o.open()
	s.guard(t, o.cfg)
	o.insert(3)
	s.consume(t, 3)
	s.drainUntil(t, func() error { return o.at(s.position()) })
}

// Rows written before the publication cannot be decoded: up to 17 the server
// says so in the stream, from 18 on it only warns and skips them.
func TestAPublicationYoungerThanItsRowsIsAGap(t *testing.T) {
	o := newDatabase(t, harness.SharedPostgres(t))
	o.exec(sql.Outbox{Schema: "public", Name: "outbox_events"}.Table(sql.Form{}))
	if _, err := CreateSlot(t.Context(), o.conn, o.cfg.Slot, CreateSlotOptions{}); err != nil {
		t.Fatal(err)
	}
	o.insert(1)
	if _, err := CreatePublication(t.Context(), o.conn, o.cfg.Publication, o.cfg.Tables); err != nil {
		t.Fatal(err)
	}
	s := o.open()
	select {
	case err := <-s.ended:
		if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), "publication did not exist") {
			t.Errorf("got %v, want ErrGap", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the session goes on")
	}
}

// A DSN may name several hosts; everything that belongs to a session goes to
// the one that answered.
func TestASessionStaysWithOneHost(t *testing.T) {
	pg := harness.SharedPostgres(t)
	o := newOutbox(t, pg)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	o.cfg.DSN = pg.DSNVia(closed.Addr().String()+","+pg.Addr(), url.User("postgres"), o.cfg.Slot) + "&target_session_attrs=read-write"
	s := o.open()
	s.guard(t, o.cfg)
	if got := s.Stream.endpoint.address; got != pg.Addr() {
		t.Errorf("the stream comes from %s, want %s", got, pg.Addr())
	}
	srv := s.srv
	srv.endpoint.address = closed.Addr().String()
	if _, err := OpenStream(t.Context(), o.cfg, srv, decoder.NewPool()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
}

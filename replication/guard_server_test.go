//go:build linux || darwin

package replication

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// guard opens the guard of a session.
func (s *session) guard(t *testing.T, cfg Config) *Guard {
	t.Helper()
	g, err := OpenGuard(t.Context(), cfg, s.srv, s.Stream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func TestGuardProvesWhoHoldsTheSlot(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	s := o.open()
	g := s.guard(t, o.cfg)
	if position, proved := g.Began(); position != o.slot().Confirmed || time.Since(proved) > g.Limit() {
		t.Errorf("began at %s, proved %s; the slot stands at %s", position, proved, o.slot().Confirmed)
	}
	before := time.Now()
	sent, err := g.Prove(t.Context())
	if err != nil || sent.Before(before) || sent.After(time.Now()) {
		t.Errorf("sent %s, %v", sent, err)
	}
	if lsn, err := g.WALEnd(t.Context()); err != nil || lsn < o.slot().Confirmed {
		t.Errorf("the WAL ends at %s (%v)", lsn, err)
	}
	s.close()
	harness.Eventually(t, 5*time.Second, func() error {
		if _, err := g.Prove(t.Context()); !errors.Is(err, ErrNotOwner) {
			return errors.Join(errors.New("still proved"), err)
		}
		return nil
	})
	// The successor's walsender is not ours either.
	o.open()
	if _, err := g.Prove(t.Context()); !errors.Is(err, ErrNotOwner) {
		t.Errorf("got %v, want ErrNotOwner", err)
	}
}

func TestGuardNoticesTablesThatAreNotPublishedAnyMore(t *testing.T) {
	pg := harness.SharedPostgres(t)
	for name, change := range map[string]struct{ sql, says string }{
		"taken out":            {"ALTER PUBLICATION outbox DROP TABLE outbox_events", "outbox-cdc publication create"},
		"renamed":              {"ALTER TABLE outbox_events RENAME TO old_events", "correct relay.yaml:3"},
		"moved":                {"CREATE SCHEMA archive; ALTER TABLE outbox_events SET SCHEMA archive", "correct relay.yaml:3"},
		"dropped":              {"DROP TABLE outbox_events", "take it out of relay.yaml:3"},
		"publication gone":     {"DROP PUBLICATION outbox", "outbox-cdc publication create"},
		"inserts switched off": {"ALTER PUBLICATION outbox SET (publish = 'delete')", "outbox-cdc publication create"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits a second
			o := newOutbox(t, pg)
			o.cfg.MembershipInterval = time.Nanosecond
			o.cfg.Places = map[string]Place{`"public"."outbox_events"`: {Name: "relay.yaml:3"}}
			g := o.open().guard(t, o.cfg)
			o.exec(change.sql)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := g.Run(ctx)
			if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), `"outbox_events"`) || !strings.Contains(err.Error(), change.says) {
				t.Errorf("got %v, want ErrGap that says %q", err, change.says)
			}
		})
	}
}

func TestGuardEndsWithTheServerAndWithItsContext(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	g := o.open().guard(t, o.cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("got %v, want nil", err)
	}
	go func() { ended <- g.Run(t.Context()) }()
	o.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()")
	if err := <-ended; err == nil {
		t.Error("the guard did not notice that its connection is gone")
	}
}

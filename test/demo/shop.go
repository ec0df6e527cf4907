//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// shopTables is the service's own table; the outbox beside it is made by
// outbox-cdc init.
const shopTables = `CREATE TABLE orders (
	id         text        PRIMARY KEY,
	status     text        NOT NULL,
	details    jsonb       NOT NULL,
	updated_at timestamptz NOT NULL DEFAULT now()
)`

// outcome is what became of a change.
type outcome struct {
	change
	id  string // of the event in the outbox
	err error  // ends the show
}

// shop is the service: it knows PostgreSQL and nothing else.
type shop struct {
	db      *pgx.Conn
	changes []change
	every   time.Duration
	again   bool // from the beginning when all are through
}

// run carries out the changes, one transaction each, and says what became of
// each. When ctx ends it finishes the one it is at.
func (s *shop) run(ctx context.Context, outcomes chan<- outcome) {
	defer close(outcomes)
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		for _, c := range s.changes {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			id, err := s.transact(context.WithoutCancel(ctx), c)
			if err != nil {
				err = fmt.Errorf("%s: %w", c.source, err)
			}
			outcomes <- outcome{c, id, err}
			if err != nil {
				return
			}
		}
		if !s.again {
			return
		}
	}
}

// transact is all that a service has to do: it changes its own table and
// writes the event beside it, in one transaction.
func (s *shop) transact(ctx context.Context, c change) (id string, err error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer tx.Rollback(ctx) // does nothing after Commit
	_, err = tx.Exec(ctx, `
		INSERT INTO orders (id, status, details) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET status = EXCLUDED.status, details = EXCLUDED.details, updated_at = now()`,
		c.order, c.event, c.payload)
	if err != nil {
		return "", err
	}
	err = tx.QueryRow(ctx, `
		INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
		VALUES ('order', $1, $2, $3) RETURNING id::text`,
		c.order, c.event, c.payload).Scan(&id)
	if err != nil {
		return "", err
	}
	if c.rollback {
		return id, tx.Rollback(ctx)
	}
	return id, tx.Commit(ctx)
}

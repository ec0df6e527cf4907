package checkpoint

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

const (
	// recordInterval is the shortest time between two writes of a session.
	recordInterval = 10 * time.Second
	// recordRetry is the pause before a write is tried again.
	recordRetry = time.Second
)

// NewSession returns an identifier for a session.
func NewSession() string { return rand.Text() }

// Recorder writes the record of one session. It has a connection of its own,
// so that whatever holds a write up holds up nothing else.
//
// One goroutine calls Run, then End, then Close.
type Recorder struct {
	// Open opens an ordinary connection.
	Open func(context.Context) (*pgx.Conn, error)
	// Schema is where the table is.
	Schema string
	// Record is the session's first one: the slot's position after START, the
	// server, the session's identifier and the tables. CommitTime is not used.
	Record Record
	// Latest returns what has been confirmed, and when the last event of it
	// was committed; the zero time if this session confirmed none.
	Latest func() (pglogrepl.LSN, time.Time)
	// Log takes the failures of writes that are tried again.
	Log *slog.Logger

	interval time.Duration // recordInterval if 0
	conn     *pgx.Conn
	written  time.Time // commit time of the event written last
}

// Run writes the first record of the session and calls began: until then the
// slot must not be moved. Then it writes the position every 10 s in which an
// event was confirmed, and so leaves an idle database idle. It tries what
// fails again, until ctx ends, which is nil.
//
// ErrUnavailable and ErrOvertaken end it; began is called for the first, since
// there will be no record.
func (r *Recorder) Run(ctx context.Context, began func()) error {
	err := r.untilWritten(ctx, r.begin)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrUnavailable):
		began()
		return err
	case err != nil:
		return err
	}
	began()
	ticker := time.NewTicker(cmp.Or(r.interval, recordInterval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		lsn, commitTime := r.Latest()
		if commitTime.Equal(r.written) {
			continue
		}
		err := r.untilWritten(ctx, func(ctx context.Context) error { return r.update(ctx, lsn, commitTime, false) })
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// End writes that the session ended in order with the slot at lsn: the flush
// position that the server was told last. It tries once. It belongs behind the
// last status and in front of the closing of the stream, so that a successor
// finds it.
func (r *Recorder) End(ctx context.Context, lsn pglogrepl.LSN) error {
	_, commitTime := r.Latest()
	return r.attempt(ctx, func(ctx context.Context) error { return r.update(ctx, lsn, commitTime, true) })
}

// Close closes the connection.
func (r *Recorder) Close() {
	if r.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r.conn.Close(ctx)
	r.conn = nil
}

// untilWritten tries write until it succeeds, or fails for good, or ctx ends.
func (r *Recorder) untilWritten(ctx context.Context, write func(context.Context) error) error {
	for failures := 0; ; failures++ {
		err := r.attempt(ctx, write)
		if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOvertaken) || ctx.Err() != nil {
			return err
		}
		if failures == 0 {
			r.Log.Warn("gap-detection record not written, trying again", "slot", r.Record.Slot, "error", err)
		}
		timer := time.NewTimer(recordRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// attempt writes once. After a failure the connection is thrown away.
func (r *Recorder) attempt(ctx context.Context, write func(context.Context) error) error {
	if r.conn == nil {
		conn, err := r.Open(ctx)
		if err != nil {
			return fmt.Errorf("open a connection for the record: %w", err)
		}
		r.conn = conn
		// A write need not wait for a standby: what it protects against is a
		// hand on the slot of this server.
		if _, err := conn.Exec(ctx, "SET synchronous_commit = local"); err != nil {
			r.Close()
			return fmt.Errorf("open a connection for the record: %w", err)
		}
	}
	err := write(ctx)
	if err != nil {
		r.Close()
	}
	return err
}

// begin takes the record over for this session.
func (r *Recorder) begin(ctx context.Context) error {
	rec := r.Record
	_, err := r.conn.Exec(ctx, "INSERT INTO "+table(r.Schema)+` (slot, confirmed, system_id, timeline, session, clean, tables)
VALUES ($1, $2::text::pg_lsn, $3, $4, $5, false, $6)
ON CONFLICT (slot) DO UPDATE SET confirmed = excluded.confirmed, system_id = excluded.system_id, timeline = excluded.timeline,
  session = excluded.session, clean = false, tables = excluded.tables, updated_at = now()`,
		rec.Slot, rec.Confirmed.String(), rec.SystemID, rec.Timeline, rec.Session, rec.Tables)
	if err != nil {
		return recordError("write", r.Schema, err)
	}
	return nil
}

// update writes a position, if the record is still this session's.
func (r *Recorder) update(ctx context.Context, lsn pglogrepl.LSN, commitTime time.Time, clean bool) error {
	var at *time.Time // NULL leaves the last one in place
	if !commitTime.IsZero() {
		at = &commitTime
	}
	tag, err := r.conn.Exec(ctx, "UPDATE "+table(r.Schema)+` SET confirmed = $3::text::pg_lsn, commit_time = coalesce($4, commit_time), clean = $5, updated_at = now()
WHERE slot = $1 AND session = $2`, r.Record.Slot, r.Record.Session, lsn.String(), at, clean)
	if err != nil {
		return recordError("write", r.Schema, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("slot %q: %w", r.Record.Slot, ErrOvertaken)
	}
	r.written = commitTime
	return nil
}

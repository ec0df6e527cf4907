package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/replication"
	"github.com/outbox-cdc/outbox-cdc/sql"
)

// slotRecord is what the record of a slot says about time.
type slotRecord struct {
	LastEvent *time.Time `json:"last_event"` // commit time of the last event that was confirmed, as far as known
	Written   time.Time  `json:"written"`
}

// records returns the records of all slots that have one in the schema of the
// outbox table; none if they cannot be read.
func (d *database) records(ctx context.Context) (map[string]*slotRecord, error) {
	rows, err := d.conn.Query(ctx, "SELECT slot, commit_time, updated_at FROM "+sql.Qualified(d.schema(), sql.CheckpointTable))
	records := make(map[string]*slotRecord)
	if err == nil {
		var name string
		var r slotRecord
		_, err = pgx.ForEachRow(rows, []any{&name, &r.LastEvent, &r.Written}, func() error {
			found := r
			records[name] = &found
			return nil
		})
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return nil, nil // slots can be looked at without init
	}
	if err != nil {
		return nil, fmt.Errorf("read the records of slots: %w", err)
	}
	return records, nil
}

// The ways in which a lag in time is known.
const (
	lagExact   = "exact"
	lagAtLeast = "at_least"
	lagAtMost  = "at_most"
)

// lagTime is how far a slot is behind in time, and how exactly that is known.
type lagTime struct {
	value time.Duration
	bound string // empty: nothing is known
}

// lagOf tells how old the oldest change is that the slot has not confirmed. No
// server keeps a time for each position, so it is put together from what is
// known for certain. The server's own measure is of use only while nothing is
// outstanding: it does not grow while nothing is confirmed.
func lagOf(s replication.Slot, r *slotRecord) lagTime {
	since := func(t time.Time) time.Duration { return max(s.ServerTime.Sub(t), 0) }
	switch {
	case s.Confirmed == 0:
		return lagTime{}
	case !s.Unmeasured && s.LagBytes <= 0:
		return lagTime{0, lagExact}
	case s.Client != nil && s.Client.CaughtUp && s.Client.FlushLag != nil:
		return lagTime{time.Duration(*s.Client.FlushLag * float64(time.Second)), lagExact}
	case s.Client != nil && s.Client.CaughtUp:
		return lagTime{0, lagExact}
	case s.ActivePID == 0 && s.InactiveSince != nil:
		return lagTime{since(*s.InactiveSince), lagAtLeast}
	case r != nil && r.LastEvent != nil:
		return lagTime{since(*r.LastEvent), lagAtMost}
	}
	return lagTime{}
}

// String returns the lag as a table has it.
func (l lagTime) String() string {
	switch l.bound {
	case lagExact:
		return ageOf(l.value)
	case lagAtLeast:
		return ">" + ageOf(l.value)
	case lagAtMost:
		return "<" + ageOf(l.value)
	}
	return "-"
}

// ageOf writes a duration with its two largest units.
func ageOf(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Second:
		return d.Truncate(time.Second).String()
	}
	return d.Truncate(time.Millisecond).String()
}

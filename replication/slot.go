package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Slot is the state of a replication slot.
type Slot struct {
	Name               string        `json:"name"`
	Plugin             string        `json:"plugin,omitempty"`
	Type               string        `json:"type"`
	Database           string        `json:"database,omitempty"`
	CurrentDatabase    string        `json:"-"` // the connection's
	Temporary          bool          `json:"temporary"`
	TwoPhase           bool          `json:"two_phase"`
	Failover           bool          `json:"failover"`
	Synced             bool          `json:"synced"`
	ActivePID          uint32        `json:"active_pid,omitempty"` // 0 if nobody holds it
	InactiveSince      *time.Time    `json:"inactive_since,omitempty"`
	WALStatus          string        `json:"wal_status,omitempty"`
	InvalidationReason string        `json:"invalidation_reason,omitempty"`
	Restart            pglogrepl.LSN `json:"restart_lsn"`
	Confirmed          pglogrepl.LSN `json:"confirmed_flush_lsn"`
	LagBytes           int64         `json:"lag_bytes"`      // from Confirmed to the end of the WAL
	RetainedBytes      int64         `json:"retained_bytes"` // from Restart to the end of the WAL
	Unmeasured         bool          `json:"-"`              // the role may not ask where the WAL ends; both are 0
	SafeWALBytes       *int64        `json:"safe_wal_bytes,omitempty"`
	XminAge            int64         `json:"xmin_age,omitempty"` // transactions since what it keeps from VACUUM
	OnStandby          bool          `json:"-"`                  // the server is one
	ServerTime         time.Time     `json:"-"`                  // when the server was asked
	Client             *Client       `json:"client,omitempty"`   // by InspectSlots alone
}

// slotRows and slotColumns read a Slot as text. Columns that not every version
// has are taken out of the row as JSON.
const (
	slotRows = `SELECT s.slot_name, coalesce(s.plugin, ''), s.slot_type, coalesce(s.database, ''), current_database(),
  s.temporary::text, coalesce(s.two_phase, false)::text,
  coalesce(to_jsonb(s)->>'failover', 'false'), coalesce(to_jsonb(s)->>'synced', 'false'),
  coalesce(s.active_pid, 0)::text, coalesce(to_jsonb(s)->>'inactive_since', ''),
  coalesce(s.wal_status, ''), coalesce(to_jsonb(s)->>'invalidation_reason', ''),
  coalesce(s.restart_lsn, '0/0')::text, coalesce(s.confirmed_flush_lsn, '0/0')::text, (w.lsn IS NULL)::text,
  coalesce((w.lsn - s.confirmed_flush_lsn)::bigint, 0)::text, coalesce((w.lsn - s.restart_lsn)::bigint, 0)::text,
  coalesce(CASE WHEN s.restart_lsn IS NOT NULL THEN s.safe_wal_size::text END, ''), coalesce(age(coalesce(s.catalog_xmin, s.xmin)), 0)::text,
  w.standby::text, to_jsonb(clock_timestamp())#>>'{}'
FROM pg_replication_slots s, `
	slotColumns = slotRows + `(SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, pg_is_in_recovery()) w(lsn, standby)`
	// unmeasured is slotColumns for a role that may not ask where the WAL ends.
	unmeasured = slotRows + `(SELECT NULL::pg_lsn, false) w(lsn, standby)`
)

// errNoSlot is what a missing slot is for everybody: nothing can bring back
// what it would have kept.
func errNoSlot(name string) error {
	return fault(ErrGap, "slot %q does not exist; a cluster manager may have dropped it at a failover; create it with \"outbox-cdc slot create --slot %s\": rows committed before are not in it", name, name)
}

// ShowSlot returns the state of a slot. A slot that does not exist is a fault
// of kind ErrGap.
func ShowSlot(ctx context.Context, conn *pgx.Conn, name string) (Slot, error) {
	return slotIn(ctx, conn, slotQuestion(name).on(ctx, conn), name)
}

func slotQuestion(name string) question { return ask(slotColumns+" WHERE s.slot_name = $1", name) }

// slotIn reads the answer to slotQuestion on conn.
func slotIn(ctx context.Context, conn *pgx.Conn, found answer, name string) (Slot, error) {
	switch {
	case found.result.Err != nil:
		return Slot{}, fmt.Errorf("read slot %q: %w", name, explain(ctx, conn, found.result.Err))
	case len(found.result.Rows) == 0:
		return Slot{}, errNoSlot(name)
	}
	return scanSlot(found.result.Rows[0])
}

func querySlots(ctx context.Context, conn *pgx.Conn, sql string) ([]Slot, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Slot, error) {
		return scanSlot(row.RawValues())
	})
}

// readSlotSimple reads a slot on a replication connection, which knows only
// the simple query protocol.
func readSlotSimple(ctx context.Context, conn *pgconn.PgConn, name string) (Slot, error) {
	results, err := conn.Exec(ctx, slotColumns+" WHERE s.slot_name = "+quoteLiteral(name)).ReadAll()
	if err != nil {
		return Slot{}, fmt.Errorf("read slot %q: %w", name, err)
	}
	if len(results) != 1 || len(results[0].Rows) == 0 {
		return Slot{}, errNoSlot(name)
	}
	return scanSlot(results[0].Rows[0])
}

// usable reports why the slot cannot be streamed from.
func (s Slot) usable() error {
	switch {
	case s.Type != "logical":
		return fault(ErrSetup, "slot %q is a physical slot; name a logical one with --slot, or create one with \"outbox-cdc slot create\"", s.Name)
	case s.Database != s.CurrentDatabase:
		return fault(ErrSetup, "slot %q belongs to database %q, not %q; correct --dsn or --slot", s.Name, s.Database, s.CurrentDatabase)
	case s.Plugin != "pgoutput":
		return fault(ErrSetup, "slot %q uses the plugin %q, not pgoutput; name another slot, or create one with \"outbox-cdc slot create\"", s.Name, s.Plugin)
	case s.Temporary:
		return fault(ErrSetup, "slot %q is temporary and dies with its connection; create another with \"outbox-cdc slot create\"", s.Name)
	case s.TwoPhase:
		return fault(ErrSetup, "slot %q has two_phase on, so it sends transactions before they are committed; create another with \"outbox-cdc slot create\"", s.Name)
	case s.Synced && s.OnStandby: // the mark stays when the standby is promoted
		return fault(ErrUnreachable, "slot %q is a copy on a standby; name the primary in --dsn", s.Name)
	case s.WALStatus == "lost" || s.InvalidationReason != "":
		return fault(ErrGap, "slot %q is lost (%s): the server has removed WAL behind %s, so rows are missing; "+
			"drop it with \"outbox-cdc slot drop\", create it again, and publish again what is missing", s.Name, s.lostBecause(), s.Confirmed)
	}
	return nil
}

func (s Slot) lostBecause() string {
	switch s.InvalidationReason {
	case "", "wal_removed": // before PostgreSQL 17 there is no reason
		return "max_slot_wal_keep_size exceeded"
	}
	return s.InvalidationReason
}

func walEnd(ctx context.Context, conn *pgx.Conn) (pglogrepl.LSN, error) {
	var text string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&text); err != nil {
		return 0, fmt.Errorf("read the end of the WAL: %w", err)
	}
	return pglogrepl.ParseLSN(text)
}

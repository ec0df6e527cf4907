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
	WALStatus          string        `json:"wal_status,omitempty"`
	InvalidationReason string        `json:"invalidation_reason,omitempty"`
	Restart            pglogrepl.LSN `json:"restart_lsn"`
	Confirmed          pglogrepl.LSN `json:"confirmed_flush_lsn"`
	LagBytes           int64         `json:"lag_bytes"`      // from Confirmed to the end of the WAL
	RetainedBytes      int64         `json:"retained_bytes"` // from Restart to the end of the WAL
	SafeWALBytes       *int64        `json:"safe_wal_bytes,omitempty"`
}

// slotColumns reads a Slot as text. Columns that not every version has are
// taken out of the row as JSON.
const slotColumns = `SELECT s.slot_name, coalesce(s.plugin, ''), s.slot_type, coalesce(s.database, ''), current_database(),
  s.temporary::text, coalesce(s.two_phase, false)::text,
  coalesce(to_jsonb(s)->>'failover', 'false'), coalesce(to_jsonb(s)->>'synced', 'false'),
  coalesce(s.active_pid, 0)::text, coalesce(s.wal_status, ''), coalesce(to_jsonb(s)->>'invalidation_reason', ''),
  coalesce(s.restart_lsn, '0/0')::text, coalesce(s.confirmed_flush_lsn, '0/0')::text,
  coalesce(pg_wal_lsn_diff(w.lsn, s.confirmed_flush_lsn)::bigint, 0)::text,
  coalesce(pg_wal_lsn_diff(w.lsn, s.restart_lsn)::bigint, 0)::text,
  coalesce(s.safe_wal_size::text, '')
FROM pg_replication_slots s,
  (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END) w(lsn)`

// errNoSlot is what a missing slot is for everybody: nothing can bring back
// what it would have kept.
func errNoSlot(name string) error {
	return fault(ErrGap, "slot %q does not exist; create it with \"outbox-cdc slot create --slot %s\": rows committed before are not in it", name, name)
}

// ShowSlot returns the state of a slot. A slot that does not exist is a fault
// of kind ErrGap.
func ShowSlot(ctx context.Context, conn *pgx.Conn, name string) (Slot, error) {
	slots, err := querySlots(ctx, conn, slotColumns+" WHERE s.slot_name = $1", name)
	if err != nil {
		return Slot{}, fmt.Errorf("read slot %q: %w", name, err)
	}
	if len(slots) == 0 {
		return Slot{}, errNoSlot(name)
	}
	return slots[0], nil
}

// ListSlots returns every slot of the server, also those of others: each holds
// WAL.
func ListSlots(ctx context.Context, conn *pgx.Conn) ([]Slot, error) {
	slots, err := querySlots(ctx, conn, slotColumns+" ORDER BY s.slot_name")
	if err != nil {
		return nil, fmt.Errorf("list slots: %w", err)
	}
	return slots, nil
}

func querySlots(ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]Slot, error) {
	rows, err := conn.Query(ctx, sql, args...)
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
	case s.Synced:
		return fault(ErrUnreachable, "slot %q is a copy on a standby; name the primary in --dsn", s.Name)
	case s.WALStatus == "lost" || s.InvalidationReason != "":
		return fault(ErrGap, "slot %q is lost (%s): the server has removed WAL behind %s, so rows are missing; "+
			"drop it with \"outbox-cdc slot drop\", create it again, and publish again what is missing", s.Name, s.lostBecause(), s.Confirmed)
	}
	return nil
}

func (s Slot) lostBecause() string {
	if s.InvalidationReason != "" {
		return s.InvalidationReason
	}
	return "max_slot_wal_keep_size exceeded"
}

// CreateSlotOptions says how a slot is created.
type CreateSlotOptions struct {
	// Failover has standbys keep a copy of the slot (PostgreSQL 17 and later).
	Failover bool
	// Timeout bounds the wait for transactions that are open; 0 means none.
	Timeout time.Duration
}

// CreateSlot creates a logical slot for pgoutput and returns its state. The
// publication must exist first: rows written before it cannot be decoded. It
// waits for every transaction of the server that has written something. When it
// gives up, no slot is left behind, provided that the connection is one of
// Config.Connect.
func CreateSlot(ctx context.Context, conn *pgx.Conn, name string, opts CreateSlotOptions) (Slot, error) {
	if err := ValidateSlotName(name); err != nil {
		return Slot{}, err
	}
	version, err := serverVersion(ctx, conn)
	if err != nil {
		return Slot{}, err
	}
	if opts.Failover && version < 170000 {
		return Slot{}, fault(ErrSetup, "--failover needs PostgreSQL 17 or later, the server is %d", version/10000)
	}
	sql := "SELECT pg_create_logical_replication_slot($1, 'pgoutput')"
	if opts.Failover {
		sql = "SELECT pg_create_logical_replication_slot($1, 'pgoutput', failover => true)"
	}
	waitCtx, cancel := withTimeout(ctx, opts.Timeout)
	defer cancel()
	if _, err := conn.Exec(waitCtx, sql, name); err != nil {
		return Slot{}, createFault(ctx, waitCtx, conn, name, opts.Timeout, err)
	}
	return ShowSlot(ctx, conn, name)
}

// createFault says why a slot was not created.
func createFault(ctx, waitCtx context.Context, conn *pgx.Conn, name string, timeout time.Duration, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("create slot %q: %w", name, context.Cause(ctx))
	case waitCtx.Err() != nil:
		return fault(ErrBusy, "slot %q was not created within --timeout %s: the server waits for open transactions to end (%s); end them or wait longer",
			name, timeout, openTransactions(ctx, conn))
	case isCode(err, "42710"):
		return fault(ErrSetup, "slot %q exists already", name).because(err)
	case isCode(err, "53400"):
		return fault(ErrSetup, "slot %q was not created, every slot of the server is taken; raise max_replication_slots or drop one that \"outbox-cdc slot list\" shows", name).because(err)
	case isCode(err, "42501"):
		return fault(ErrDenied, "slot %q was not created, the user may not; as a superuser: ALTER ROLE ... REPLICATION", name).because(err)
	case isCode(err, "55000", "0A000"):
		return fault(ErrSetup, "slot %q was not created; the server must be a primary with wal_level = logical", name).because(err)
	}
	return fmt.Errorf("create slot %q: %w", name, err)
}

// openTransactions names who keeps a slot from being created.
func openTransactions(ctx context.Context, conn *pgx.Conn) string {
	var who string
	err := conn.QueryRow(ctx, `SELECT coalesce(string_agg(x, ', '), 'none that this user may see') FROM (
  SELECT 'pid ' || pid AS x FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
  UNION ALL SELECT 'prepared transaction ' || quote_literal(gid) FROM pg_prepared_xacts LIMIT 5) t`).Scan(&who)
	if err != nil {
		return "they cannot be listed: " + oneLine(err)
	}
	return who
}

// DropSlot drops a slot. One that is in use is ErrBusy; one that does not
// exist is a fault of kind ErrGap.
func DropSlot(ctx context.Context, conn *pgx.Conn, name string) error {
	slot, err := ShowSlot(ctx, conn, name)
	if err != nil {
		return err
	}
	if slot.ActivePID != 0 {
		return inUse(slot)
	}
	_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name)
	switch {
	case isCode(err, "55006"):
		return inUse(slot).because(err)
	case isCode(err, "42704"):
		return errNoSlot(name)
	case err != nil:
		return fmt.Errorf("drop slot %q: %w", name, err)
	}
	return nil
}

func inUse(slot Slot) *Fault {
	return fault(ErrBusy, "slot %q is in use by process %d of the server; stop what uses it first", slot.Name, slot.ActivePID)
}

// AdvanceSlot moves a slot forward to lsn, or to the end of the WAL if that is
// 0, and returns where it was and where it is. What is skipped will never be
// published.
func AdvanceSlot(ctx context.Context, conn *pgx.Conn, name string, lsn pglogrepl.LSN) (from, to pglogrepl.LSN, err error) {
	slot, err := ShowSlot(ctx, conn, name)
	if err != nil {
		return 0, 0, err
	}
	if err := slot.usable(); err != nil {
		return 0, 0, err
	}
	if slot.ActivePID != 0 {
		return 0, 0, inUse(slot)
	}
	end, err := walEnd(ctx, conn)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case lsn == 0:
		lsn = end
	case lsn > end:
		return 0, 0, fault(ErrSetup, "--to %s is beyond the end of the server's WAL, %s", lsn, end)
	case lsn < slot.Confirmed:
		return 0, 0, fault(ErrSetup, "--to %s is behind slot %q, which stands at %s and cannot go back", lsn, name, slot.Confirmed)
	}
	if lsn == slot.Confirmed {
		return slot.Confirmed, slot.Confirmed, nil
	}
	var reached string
	err = conn.QueryRow(ctx, "SELECT end_lsn::text FROM pg_replication_slot_advance($1, $2::text::pg_lsn)", name, lsn.String()).Scan(&reached)
	switch {
	case isCode(err, "55006"):
		return 0, 0, inUse(slot).because(err)
	case err != nil:
		return 0, 0, fmt.Errorf("advance slot %q to %s: %w", name, lsn, err)
	}
	to, err = pglogrepl.ParseLSN(reached)
	return slot.Confirmed, to, err
}

func walEnd(ctx context.Context, conn *pgx.Conn) (pglogrepl.LSN, error) {
	var text string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&text); err != nil {
		return 0, fmt.Errorf("read the end of the WAL: %w", err)
	}
	return pglogrepl.ParseLSN(text)
}

func serverVersion(ctx context.Context, conn *pgx.Conn) (int, error) {
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return 0, fmt.Errorf("read the server's version: %w", err)
	}
	return version, nil
}

func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

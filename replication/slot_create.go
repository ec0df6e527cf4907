package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

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
	if err := CheckPrimary(ctx, conn); err != nil {
		return Slot{}, err
	}
	sql := "SELECT pg_create_logical_replication_slot($1, 'pgoutput')"
	if opts.Failover {
		if err := canFailOver(ctx, conn); err != nil {
			return Slot{}, err
		}
		sql = "SELECT pg_create_logical_replication_slot($1, 'pgoutput', failover => true)"
	}
	if err := noticeOurEnd(ctx, conn); err != nil {
		return Slot{}, err
	}
	waitCtx, cancel := withTimeout(ctx, opts.Timeout)
	defer cancel()
	if _, err := conn.Exec(waitCtx, sql, name); err != nil {
		return Slot{}, createFault(ctx, waitCtx, conn, name, opts.Timeout, err)
	}
	return ShowSlot(ctx, conn, name)
}

// CheckPrimary reports a server on which nothing can be created, nor a slot be
// used: a standby.
func CheckPrimary(ctx context.Context, conn *pgx.Conn) error {
	var recovery bool
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&recovery); err != nil {
		return fmt.Errorf("ask whether the server is a standby: %w", explain(ctx, conn, err))
	}
	if recovery {
		return fault(ErrSetup, "the server is a standby, where nothing can be created; name the primary in --dsn, or all hosts with target_session_attrs=read-write")
	}
	return nil
}

func canFailOver(ctx context.Context, conn *pgx.Conn) error {
	version, err := serverVersion(ctx, conn)
	if err != nil {
		return err
	}
	if version < 170000 {
		return fault(ErrSetup, "--failover needs PostgreSQL 17 or later, the server is %d; leave it out", version/10000)
	}
	return nil
}

// noticeOurEnd has the server look for us while it waits. Otherwise it would
// create a slot that nobody knows of, some time after this process was killed.
func noticeOurEnd(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET client_connection_check_interval = '1s'")
	if isCode(err, "22023") {
		return nil // the server's system has no way to do it
	}
	if err != nil {
		return fmt.Errorf("set client_connection_check_interval: %w", err)
	}
	return nil
}

// createFault says why a slot was not created.
func createFault(ctx, waitCtx context.Context, conn *pgx.Conn, name string, timeout time.Duration, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("create slot %q: %w", name, context.Cause(ctx))
	case waitCtx.Err() != nil:
		return fault(ErrBusy, "slot %q was not created within --timeout %s: the server waits for open transactions to end (%s); end them or wait longer",
			name, timeout, OpenTransactions(ctx, conn))
	case isCode(err, "42710"):
		return fault(ErrSetup, "slot %q exists already", name).because(err)
	case isCode(err, "53400"):
		return noFreeSlot(ctx, conn, name, err)
	case isCode(err, "42501"):
		return fault(ErrDenied, "slot %q was not created, the user may not; as a superuser: ALTER ROLE %s REPLICATION", name, quoteIdentifier(conn.Config().User)).because(err)
	case isCode(err, "55000", "0A000"):
		return fault(ErrSetup, "slot %q was not created; the server must be a primary with wal_level = logical", name).because(err)
	}
	return fmt.Errorf("create slot %q: %w", name, err)
}

// listed is how many things a message names before it only counts the others.
const listed = 10

// noFreeSlot lists the slots that are in the way.
func noFreeSlot(ctx context.Context, conn *pgx.Conn, name string, cause error) error {
	slots, err := ListSlots(ctx, conn)
	if err != nil {
		return errors.Join(cause, err)
	}
	items := make([]string, len(slots))
	for i, s := range slots {
		items[i] = fmt.Sprintf("%s (%s)", s.Name, s.Age())
	}
	return fault(ErrSetup, "slot %q was not created, max_replication_slots = %d are taken: %s; drop one that is not needed with \"outbox-cdc slot drop\", or raise the limit and restart the server",
		name, len(slots), enumerate(items)).because(cause)
}

// OpenTransactions names who keeps a slot from being created, in one line, the
// oldest first. Of a statement only the first word is shown: the rest may hold
// what nobody else should read.
func OpenTransactions(ctx context.Context, conn *pgx.Conn) string {
	rows, err := conn.Query(ctx, `SELECT x FROM (
  SELECT age(backend_xid) AS xid_age, format('pid %s', pid) || coalesce(', user ' || usename, '') || coalesce(', database ' || datname, '')
    || coalesce(', application ' || nullif(application_name, ''), '')
    || coalesce(', open for ' || date_trunc('second', clock_timestamp() - xact_start), '')
    || coalesce(', ' || state, '') || coalesce(', last statement ' || upper(substring(query FROM '^\s*([A-Za-z]+)')), '') AS x
  FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
  UNION ALL SELECT age(transaction), format('prepared transaction %L, user %s, database %s, open for %s', gid, owner, database,
    date_trunc('second', clock_timestamp() - prepared)) FROM pg_prepared_xacts) t ORDER BY xid_age DESC, x`)
	var who []string
	if err == nil {
		who, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	switch {
	case err != nil:
		return "they cannot be listed: " + oneLine(explain(ctx, conn, err))
	case len(who) == 0:
		return "none that this user may see"
	}
	return enumerate(who)
}

// enumerate writes the first of many things.
func enumerate(items []string) string {
	if more := len(items) - listed; more > 0 {
		items = append(items[:listed:listed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(items, "; ")
}

func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

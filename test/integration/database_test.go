//go:build linux || darwin

package integration

import (
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// dsn returns the environment variable that leads the binary to the database.
func (o *outbox) dsn() string {
	addr := o.pg.Addr()
	if o.proxy != nil {
		addr = o.proxy.Addr()
	}
	return "OUTBOX_CDC_DSN=" + o.pg.DSNVia(addr, superuser, o.database)
}

// exec executes SQL in the outbox's database, or ends the test.
func (o *outbox) exec(sql string, args ...any) {
	o.t.Helper()
	if err := o.pg.Exec(o.t.Context(), o.database, sql, args...); err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
}

// values returns the values of a query's only column, or ends the test.
func values[T any](o *outbox, sql string, args ...any) []T {
	o.t.Helper()
	v, err := harness.Query[T](o.t.Context(), o.pg, o.database, sql, args...)
	if err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// value returns the one value of a query in the outbox's database, or ends the
// test.
func value[T any](o *outbox, sql string, args ...any) T {
	o.t.Helper()
	v, err := harness.QueryValue[T](o.t.Context(), o.pg, o.database, sql, args...)
	if err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// lsn is value for a position in the write-ahead log.
func (o *outbox) lsn(sql string, args ...any) pglogrepl.LSN {
	o.t.Helper()
	lsn, err := pglogrepl.ParseLSN(value[string](o, sql, args...))
	if err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
	return lsn
}

// walEnd returns how far the write-ahead log is on disk: everything that was
// committed before the call is before it.
func (o *outbox) walEnd() pglogrepl.LSN {
	o.t.Helper()
	return o.lsn("SELECT pg_current_wal_flush_lsn()::text")
}

// confirmed returns the slot's position.
func (o *outbox) confirmed() pglogrepl.LSN {
	o.t.Helper()
	return o.lsn("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", o.slot)
}

// walsender returns the pid of the process that serves the slot, 0 if none
// does.
func (o *outbox) walsender() int {
	o.t.Helper()
	return value[int](o, "SELECT coalesce(active_pid, 0) FROM pg_replication_slots WHERE slot_name = $1", o.slot)
}

// deadLetters returns the ids of the events that were set aside.
func (o *outbox) deadLetters() []string {
	o.t.Helper()
	schema := pgx.Identifier{"public"}
	if dot := strings.LastIndex(o.table, "."); dot >= 0 {
		schema = pgx.Identifier{strings.Trim(o.table[:dot], `"`)}
	}
	ids, err := harness.Query[string](o.t.Context(), o.pg, o.database,
		"SELECT coalesce(event_id, position) FROM "+schema.Sanitize()+".outbox_dead_letters ORDER BY id")
	if err != nil {
		o.t.Fatal(err)
	}
	return ids
}

//go:build linux || darwin

package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Connect opens a connection as the superuser. The caller closes it.
func (p *Postgres) Connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, p.DSN(database))
}

// Exec runs one statement, or several without arguments, on a connection of its
// own.
func (p *Postgres) Exec(ctx context.Context, database, sql string, args ...any) error {
	conn, err := p.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql, args...)
	return err
}

// Query runs a query on a connection of its own and returns its rows, each of
// one column; T is what pgx scans that into.
func Query[T any](ctx context.Context, p *Postgres, database, sql string, args ...any) ([]T, error) {
	conn, err := p.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// QueryValue is Query for exactly one row.
func QueryValue[T any](ctx context.Context, p *Postgres, database, sql string, args ...any) (T, error) {
	var zero T
	values, err := Query[T](ctx, p, database, sql, args...)
	switch {
	case err != nil:
		return zero, err
	case len(values) != 1:
		return zero, fmt.Errorf("%d rows instead of one for %s", len(values), sql)
	}
	return values[0], nil
}

// DropDatabase drops a database, its slots and whoever uses them.
func (p *Postgres) DropDatabase(ctx context.Context, name string) error {
	return poll(ctx, patience, 20*time.Millisecond, func(ctx context.Context) error {
		// A slot cannot be dropped before its walsender has gone.
		const dropSlots = `SELECT count(*) FROM (
			SELECT CASE WHEN active THEN pg_terminate_backend(active_pid)::text
			            ELSE pg_drop_replication_slot(slot_name)::text END
			FROM pg_replication_slots WHERE database = $1) AS dropped`
		if err := p.Exec(ctx, superuser, dropSlots, name); err != nil {
			return err
		}
		return p.Exec(ctx, superuser, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	})
}

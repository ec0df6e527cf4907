//go:build linux || darwin

package main

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// loadProcedure commits rows. The pads are cut from one text that neither
// repeats nor compresses. Nothing waits for the WAL: CHECKPOINT flushes it.
const loadProcedure = `
CREATE PROCEDURE load(first bigint, last bigint, per_transaction bigint, bytes int, types int) LANGUAGE plpgsql AS $$
DECLARE
	pool text   := (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 256 + bytes / 16) AS i);
	pad  int    := greatest(bytes - length('{"n": 1000000, "pad": ""}'), 1);
	room int    := length(pool) - pad;
	next bigint := first;
BEGIN
	WHILE next <= last LOOP
		INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
		SELECT CASE types WHEN 1 THEN 'order' ELSE 'order' || g % types END, (g % 10000)::text, 'OrderPlaced',
			jsonb_build_object('n', g, 'pad', substr(pool, 1 + (g * 7919 % room)::int, pad))
		FROM generate_series(next, least(next + per_transaction - 1, last)) AS g;
		COMMIT;
		next := next + per_transaction;
	END LOOP;
END $$`

// trickleProcedure commits rows at a rate, whole transactions that wait for the
// WAL. A row tells its number and when it was inserted, in microseconds since
// 1970. Transactions that are late follow each other at once until they are in
// time again. It is the server that commits them: a client would take as many
// turns of the processors as what is measured.
const trickleProcedure = `
CREATE PROCEDURE trickle(rows bigint, per_transaction bigint, rate bigint) LANGUAGE plpgsql AS $$
DECLARE
	begun timestamptz := clock_timestamp();
	next  bigint      := 1;
	early float8;
BEGIN
	WHILE next <= rows LOOP
		early := (next - 1) / rate::float8 - extract(epoch FROM clock_timestamp() - begun);
		IF early > 0 THEN
			PERFORM pg_sleep(early);
		END IF;
		INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', (g % 10000)::text, 'OrderPlaced', jsonb_build_object('n', g,
			'at', floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'pad', repeat(md5(g::text), 8))
		FROM generate_series(next, next + per_transaction - 1) AS g;
		COMMIT;
		next := next + per_transaction;
	END LOOP;
END $$`

// aggregateTypes are the types of the rows, as loadProcedure names them.
func aggregateTypes(n int) []string {
	if n == 1 {
		return []string{"order"}
	}
	var types []string
	for i := range n {
		types = append(types, fmt.Sprintf("order%d", i))
	}
	return types
}

// commit commits the rows of the case and returns the end of the write-ahead
// log behind them.
func (p *place) commit(ctx context.Context) (pglogrepl.LSN, error) {
	l := p.load
	parts := 1
	if l.perTransaction <= l.rows/100 {
		parts = 2 // transactions that take each other's turn in the log
	}
	var all errgroup.Group
	for i := range parts {
		first, last := i*l.rows/parts+1, (i+1)*l.rows/parts
		all.Go(func() error {
			conn, err := p.pg.Connect(ctx, p.database)
			if err != nil {
				return err
			}
			defer conn.Close(context.WithoutCancel(ctx))
			if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
				return err
			}
			_, err = conn.Exec(ctx, "CALL load($1, $2, $3, $4, $5)", first, last, l.perTransaction, l.rowBytes, p.scenario.topics)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return 0, fmt.Errorf("load %d rows: %w", l.rows, err)
	}
	text, err := harness.QueryValue[string](ctx, p.pg, p.database, "SELECT pg_current_wal_insert_lsn()::text")
	if err != nil {
		return 0, err
	}
	end, err := pglogrepl.ParseLSN(text)
	if err != nil {
		return 0, err
	}
	return end, p.pg.Exec(ctx, p.database, "CHECKPOINT")
}

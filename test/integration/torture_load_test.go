//go:build linux || darwin

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// hammer is a writer of a torture: its transactions are of all kinds.
type hammer struct {
	writer
	gid string // of its prepared transactions
}

// torment has hammers write until the returned function is called.
func (o *outbox) torment(seed uint64, hammers int, pace time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(o.t.Context())
	var all sync.WaitGroup
	for i := range hammers {
		h := &hammer{writer: writer{o: o, random: rand.New(rand.NewPCG(seed, uint64(i)))}, gid: fmt.Sprintf("%s_%d", o.database, i)}
		all.Go(func() { h.loop(ctx, pace, h.transaction) })
	}
	// One more, whose transactions are open while many of the others' begin
	// and end.
	l := &hammer{writer: writer{o: o, random: rand.New(rand.NewPCG(seed, uint64(hammers)))}, gid: o.database + "_long"}
	all.Go(func() { l.loop(ctx, pace, func(inner context.Context) error { return l.long(ctx, inner) }) })
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	o.t.Cleanup(stop)
	return stop
}

// transaction is one of one of the kinds.
func (h *hammer) transaction(ctx context.Context) error {
	kinds := []func(context.Context) error{
		h.single, h.single, h.batch, h.copy, h.selected, h.savepoints, h.rolledBack, h.deleted, h.prepared,
	}
	return kinds[h.random.IntN(len(kinds))](ctx)
}

// ended executes what ends a transaction and tells the ledger.
func (h *hammer) ended(ctx context.Context, statement string, what outcome, numbers []int64) error {
	if _, err := h.conn.Exec(ctx, statement); err != nil {
		return err
	}
	h.o.ledger.note(what, numbers...)
	return nil
}

// begun opens a transaction and inserts n rows.
func (h *hammer) begun(ctx context.Context, n int) ([]int64, error) {
	if _, err := h.conn.Exec(ctx, "BEGIN"); err != nil {
		return nil, err
	}
	return h.more(ctx, n)
}

// more inserts n rows.
func (h *hammer) more(ctx context.Context, n int) ([]int64, error) {
	rows, numbers := h.o.tortureRows(n)
	return numbers, insertRows(ctx, h.conn, h.o.table, rows...)
}

// single is a row without a transaction around it.
func (h *hammer) single(ctx context.Context) error {
	numbers, err := h.more(ctx, 1)
	if err == nil {
		h.o.ledger.note(committed, numbers...)
	}
	return err
}

// batch is rows that are sent all at once.
func (h *hammer) batch(ctx context.Context) error {
	rows, numbers := h.o.tortureRows(2 + h.random.IntN(30))
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	for _, r := range rows {
		batch.Queue(insertStatement(h.o.table), r.values()...)
	}
	batch.Queue("COMMIT")
	if err := h.conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	h.o.ledger.note(committed, numbers...)
	return nil
}

// copy is a COPY with explicit ids.
func (h *hammer) copy(ctx context.Context) error {
	rows, numbers := h.o.tortureRows(2 + h.random.IntN(60))
	values := make([][]any, len(rows))
	for i, r := range rows {
		values[i] = r.values()
	}
	table := pgx.Identifier(strings.Split(h.o.table, "."))
	if _, err := h.conn.CopyFrom(ctx, table, columns, pgx.CopyFromRows(values)); err != nil {
		return err
	}
	h.o.ledger.note(committed, numbers...)
	return nil
}

// selected is an INSERT ... SELECT.
func (h *hammer) selected(ctx context.Context) error {
	rows, numbers := h.o.tortureRows(2 + h.random.IntN(40))
	var ids, types, aggregates, payloads []string
	for _, r := range rows {
		ids, types = append(ids, idOf(r.number)), append(types, r.aggregateType)
		aggregates, payloads = append(aggregates, r.aggregateID), append(payloads, r.payload.(string))
	}
	_, err := h.conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s (%s)
		SELECT id::uuid, type, aggregate, 'created', payload::jsonb
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS r (id, type, aggregate, payload)`,
		h.o.table, strings.Join(columns, ", ")), ids, types, aggregates, payloads)
	if err == nil {
		h.o.ledger.note(committed, numbers...)
	}
	return err
}

// savepoints is a transaction of which a part, or a part of a part, is rolled
// back.
func (h *hammer) savepoints(ctx context.Context) error {
	kept, err := h.begun(ctx, 1+h.random.IntN(4))
	if err != nil {
		return err
	}
	if _, err := h.conn.Exec(ctx, "SAVEPOINT outer_one"); err != nil {
		return err
	}
	undone, err := h.more(ctx, 1+h.random.IntN(3))
	if err != nil {
		return err
	}
	if _, err := h.conn.Exec(ctx, "SAVEPOINT inner_one"); err != nil {
		return err
	}
	inner, err := h.more(ctx, 1+h.random.IntN(3))
	if err != nil {
		return err
	}
	back := "inner_one"
	if h.random.IntN(2) == 0 {
		back, undone = "outer_one", slices.Concat(undone, inner)
	} else {
		kept, undone = slices.Concat(kept, undone), inner
	}
	if _, err := h.conn.Exec(ctx, "ROLLBACK TO SAVEPOINT "+back); err != nil {
		return err
	}
	again, err := h.more(ctx, 1)
	if err != nil {
		return err
	}
	if err := h.ended(ctx, "COMMIT", committed, slices.Concat(kept, again)); err != nil {
		return err
	}
	h.o.ledger.note(rolledBack, undone...)
	return nil
}

// rolledBack is a transaction that is rolled back.
func (h *hammer) rolledBack(ctx context.Context) error {
	numbers, err := h.begun(ctx, 1+h.random.IntN(10))
	if err != nil {
		return err
	}
	return h.ended(ctx, "ROLLBACK", rolledBack, numbers)
}

// deleted inserts rows and deletes them in the same transaction, as those do
// who do not want the table to grow.
func (h *hammer) deleted(ctx context.Context) error {
	numbers, err := h.begun(ctx, 1+h.random.IntN(10))
	if err != nil {
		return err
	}
	if _, err := h.conn.Exec(ctx, "DELETE FROM "+h.o.table+" WHERE id BETWEEN $1 AND $2", idOf(numbers[0]), idOf(numbers[len(numbers)-1])); err != nil {
		return err
	}
	return h.ended(ctx, "COMMIT", committed, numbers)
}

// prepared is a transaction in two phases. One that an error has left is
// committed first.
func (h *hammer) prepared(ctx context.Context) error {
	if err := h.settlePrepared(ctx); err != nil {
		return err
	}
	numbers, err := h.begun(ctx, 1+h.random.IntN(10))
	if err != nil {
		return err
	}
	if _, err := h.conn.Exec(ctx, "PREPARE TRANSACTION '"+h.gid+"'"); err != nil {
		return err
	}
	if h.random.IntN(4) == 0 {
		return h.ended(ctx, "ROLLBACK PREPARED '"+h.gid+"'", rolledBack, numbers)
	}
	return h.ended(ctx, "COMMIT PREPARED '"+h.gid+"'", committed, numbers)
}

func (h *hammer) settlePrepared(ctx context.Context) error {
	var left bool
	if err := h.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = $1)", h.gid).Scan(&left); err != nil || !left {
		return err
	}
	_, err := h.conn.Exec(ctx, "COMMIT PREPARED '"+h.gid+"'")
	return err
}

// long is a transaction that stays open for a while, and gets rows now and
// then; when ending ends, it is committed.
func (h *hammer) long(ending, ctx context.Context) error {
	numbers, err := h.begun(ctx, 1)
	if err != nil {
		return err
	}
	pause := time.NewTicker(time.Duration(20+h.random.IntN(150)) * time.Millisecond)
	defer pause.Stop()
	for range 1 + h.random.IntN(10) {
		select {
		case <-pause.C:
		case <-ending.Done():
		}
		more, err := h.more(ctx, 1+h.random.IntN(3))
		if err != nil {
			return err
		}
		numbers = append(numbers, more...)
	}
	return h.ended(ctx, "COMMIT", committed, numbers)
}

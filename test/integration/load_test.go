//go:build linux || darwin

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// load has writers commit, roll back and interleave transactions until the
// returned function is called, which waits for them. They survive that the
// server goes away.
func (o *outbox) load(writers int) (stop func()) {
	ctx, cancel := context.WithCancel(o.t.Context())
	var all sync.WaitGroup
	for i := range writers {
		w := &writer{o: o, random: rand.New(rand.NewPCG(1, uint64(i)))}
		all.Go(func() { w.loop(ctx, writerPace, w.transaction) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	o.t.Cleanup(stop)
	return stop
}

// writer is one of the writers of a load.
type writer struct {
	o      *outbox
	random *rand.Rand
	conn   *pgx.Conn
}

// writerPace is the time from one transaction of a writer to the next.
const writerPace = 4 * time.Millisecond

// loop does something again and again until ctx ends. After an error it begins
// with a new connection.
func (w *writer) loop(ctx context.Context, every time.Duration, do func(context.Context) error) {
	pace := time.NewTicker(every)
	defer pace.Stop()
	for ctx.Err() == nil {
		// A transaction is never broken off by the end of the load: it would
		// not be known what became of it.
		if err := w.connected(context.WithoutCancel(ctx), do); err != nil && w.conn != nil {
			_ = w.conn.Close(context.WithoutCancel(ctx))
			w.conn = nil
		}
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
	if w.conn != nil {
		_ = w.conn.Close(context.WithoutCancel(ctx))
	}
}

// connected calls do with a connection.
func (w *writer) connected(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if w.conn == nil {
		conn, err := w.o.pg.Connect(ctx, w.o.database)
		if err != nil {
			return err
		}
		w.conn = conn
	}
	return do(ctx)
}

// transaction is one transaction of one of several kinds. If it fails, the
// outcome of its rows stays unknown.
func (w *writer) transaction(ctx context.Context) error {
	if _, err := w.conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	kept, err := w.insert(ctx, 1+w.random.IntN(6))
	if err != nil {
		return err
	}
	var undone []int64
	if w.random.IntN(5) == 0 {
		if undone, err = w.undone(ctx); err != nil {
			return err
		}
		again, err := w.insert(ctx, 1)
		if err != nil {
			return err
		}
		kept = slices.Concat(kept, again)
	}
	end, what := "COMMIT", committed
	if w.random.IntN(6) == 0 {
		end, what = "ROLLBACK", rolledBack
	}
	if _, err := w.conn.Exec(ctx, end); err != nil {
		return err
	}
	w.o.ledger.note(what, kept...)
	w.o.ledger.note(rolledBack, undone...)
	return nil
}

// undone inserts rows behind a savepoint and rolls back to it.
func (w *writer) undone(ctx context.Context) ([]int64, error) {
	if _, err := w.conn.Exec(ctx, "SAVEPOINT s"); err != nil {
		return nil, err
	}
	numbers, err := w.insert(ctx, 1+w.random.IntN(3))
	if err != nil {
		return nil, err
	}
	_, err = w.conn.Exec(ctx, "ROLLBACK TO SAVEPOINT s")
	return numbers, err
}

// insert inserts n rows into the open transaction.
func (w *writer) insert(ctx context.Context, n int) ([]int64, error) {
	var numbers []int64
	for range n {
		r := w.o.newRow()
		numbers = append(numbers, r.number)
		if err := insertRows(ctx, w.conn, w.o.table, r); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// awaitCommitted waits until the writers have committed n more rows.
func (o *outbox) awaitCommitted(n int) {
	o.t.Helper()
	want := o.ledger.count(committed) + n
	harness.Eventually(o.t, patience, func() error {
		if got := o.ledger.count(committed); got < want {
			return fmt.Errorf("%d rows are committed, not yet %d", got, want)
		}
		return nil
	})
}

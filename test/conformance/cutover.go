//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// cutOvers goes from Debezium to outbox-cdc on the same topics, in the two ways
// of docs/debezium.md, while a service goes on writing.
func (s *stage) cutOvers(ctx context.Context) error {
	if err := s.cutOver(ctx, cutOverCase+"-without-pause", s.handOver, true); err != nil {
		return err
	}
	return s.cutOver(ctx, cutOverCase+"-with-lock", s.handOverLocked, false)
}

// cutOver goes from one to the other by handOver, which ends with Debezium
// stopped, and judges what the topic holds in the end.
func (s *stage) cutOver(ctx context.Context, name string, handOver func(context.Context, comparison, *service) error, twice bool) error {
	c := comparison{name: name, columns: columns, shared: true}
	fmt.Fprintf(s.out, "conformance: %s ...\n", name)
	if err := s.prepare(ctx, c); err != nil {
		return err
	}
	if err := s.startThere(ctx, c); err != nil {
		return err
	}
	w := s.newService(ctx, c)
	defer w.stop()
	err := s.awaitWritten(ctx, c, 100)
	if err == nil {
		err = handOver(ctx, c, w)
	}
	if err != nil {
		return err
	}
	failed, err := s.runHereWhile(ctx, c, func() error {
		if err := w.awaitMore(ctx, 100); err != nil {
			return err
		}
		return w.stop()
	})
	if err == nil && failed != "" {
		err = fmt.Errorf("%s: %s", name, failed)
	}
	if err != nil {
		return err
	}
	records, err := s.records(ctx, thereSide, c)
	if err != nil {
		return err
	}
	v, err := judgeCutOver(records, int(w.committed.Load()))
	if err == nil && (v.twice > 0) != twice {
		err = fmt.Errorf("%d events are there twice", v.twice)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(s.out, "conformance: %s: %d events committed, 0 lost, every aggregate in order, %d published by both, the same byte for byte\n", name, v.events, v.twice)
	return nil
}

// handOver is the way without a pause.
func (s *stage) handOver(ctx context.Context, c comparison, w *service) error {
	if err := s.initialize(ctx, c); err != nil {
		return err
	}
	err := await(ctx, patience, func(ctx context.Context) error {
		past, err := harness.QueryValue[bool](ctx, s.postgres, database, `SELECT d.confirmed_flush_lsn >= o.confirmed_flush_lsn
			FROM pg_replication_slots AS d, pg_replication_slots AS o WHERE d.slot_name = $1 AND o.slot_name = $2`, slotOf(thereSide, c), slotOf(hereSide, c))
		if err == nil && !past {
			err = fmt.Errorf("%s: Debezium is not past the position of the new slot", c.name)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := w.awaitMore(ctx, 50); err != nil {
		return err
	}
	return s.connect.Remove(ctx, c.name)
}

// handOverLocked is the way in which a lock keeps the service waiting.
func (s *stage) handOverLocked(ctx context.Context, c comparison, w *service) error {
	if err := s.initialize(ctx, c); err != nil {
		return err
	}
	if err := w.awaitMore(ctx, 50); err != nil {
		return err
	}
	db, err := s.postgres.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE "+c.tableNames()[0]+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return err
	}
	var rows int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+c.tableNames()[0]).Scan(&rows); err != nil {
		return err
	}
	if err := s.awaitWritten(ctx, c, rows); err != nil {
		return err
	}
	if err := s.connect.Remove(ctx, c.name); err != nil {
		return err
	}
	if err := s.command(ctx, c, "slot", "advance", "--to", "now", "--yes"); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// awaitWritten waits until the topics hold so many records.
func (s *stage) awaitWritten(ctx context.Context, c comparison, n int) error {
	return await(ctx, patience, func(ctx context.Context) error {
		written, err := s.written(ctx, topicsOf(thereSide, c))
		if err == nil && written < n {
			err = fmt.Errorf("%s: the topics hold %d records, not yet %d", c.name, written, n)
		}
		return err
	})
}

// service commits one event after the other until it is stopped.
type service struct {
	committed atomic.Int64
	cancel    context.CancelFunc
	working   sync.WaitGroup
	err       error // why it has ended; set before working is done
}

// serviceAggregates is over how many aggregates the events are spread.
const serviceAggregates = 20

func (s *stage) newService(ctx context.Context, c comparison) *service {
	w := &service{}
	working, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	w.working.Go(func() { w.err = w.work(ctx, working.Done(), s, c) })
	return w
}

func (w *service) work(ctx context.Context, stopped <-chan struct{}, s *stage, c comparison) error {
	conn, err := s.postgres.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for {
		n := int(w.committed.Load())
		_, err := conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s VALUES ('%s', 'order', 'customer-%d', 'OrderPlaced', '{"n": %d}')`,
			c.tableNames()[0], c.idOf(n), n%serviceAggregates, n))
		if err != nil {
			return err
		}
		w.committed.Add(1)
		select {
		case <-stopped:
			return nil
		case <-pace.C:
		}
	}
}

// awaitMore waits until n more events are committed.
func (w *service) awaitMore(ctx context.Context, n int64) error {
	want := w.committed.Load() + n
	return await(ctx, patience, func(context.Context) error {
		if now := w.committed.Load(); now < want {
			return fmt.Errorf("the service has committed %d events, not yet %d", now, want)
		}
		return nil
	})
}

// stop stops the service, which finishes what it has begun. It may be called
// again.
func (w *service) stop() error {
	w.cancel()
	w.working.Wait()
	return w.err
}

// takeover is what the records of a cut-over show.
type takeover struct{ events, twice int }

// judgeCutOver looks at what two relays have published of events that one
// service has committed in the order of their numbers: none is missing, those of
// an aggregate are in order, and what is there twice is the same both times and
// was committed in one stretch. Records are those of a partition in order.
func judgeCutOver(records []harness.Record, committed int) (takeover, error) {
	v := takeover{events: committed}
	first := make(map[int]harness.Record)
	newest := make(map[string]int) // by key
	var again []int
	for _, r := range records {
		id, _ := r.Header(idHeader)
		n, err := strconv.Atoi(strings.TrimLeft(id[strings.LastIndexByte(id, '-')+1:], "0"))
		if n--; err != nil || n < 0 || n >= committed {
			return v, fmt.Errorf("an event that was not committed: %q", id)
		}
		if earlier, seen := first[n]; seen {
			if o := compare(side{records: []harness.Record{earlier}}, side{records: []harness.Record{r}}, false); len(o.differs) > 0 {
				return v, fmt.Errorf("event %d is there twice and not the same: they differ in %s", n, o.differs)
			}
			again = append(again, n)
			continue
		}
		first[n] = r
		if before, any := newest[string(r.Key)]; any && before > n {
			return v, fmt.Errorf("event %d of %s is behind event %d", n, r.Key, before)
		}
		newest[string(r.Key)] = n
	}
	if lost := committed - len(first); lost > 0 {
		return v, fmt.Errorf("%d of %d events are lost", lost, committed)
	}
	slices.Sort(again)
	for i := 1; i < len(again); i++ {
		if again[i] != again[i-1]+1 {
			return v, errors.New("the events that are there twice were not committed in one stretch")
		}
	}
	v.twice = len(again)
	return v, nil
}

//go:build linux || darwin

package integration

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// sample is a look at the slot, followed by one at the topics: what is
// confirmed in the first must be there in the second.
type sample struct {
	taken     time.Time
	started   time.Time // of the server: a restart may move slots back
	confirmed pglogrepl.LSN
	walEnd    pglogrepl.LSN
	walsender int           // 0 if the slot is not in use
	flush     pglogrepl.LSN // of the walsender's last status update; valid with reported
	reported  bool
	// ends is how far each partition is acknowledged; nil if the brokers did
	// not say.
	ends map[partition]int64
}

// samplePace is the time between two samples.
const samplePace = 50 * time.Millisecond

// sampler takes samples of an outbox's slot from the beginning of the test.
type sampler struct {
	o      *outbox
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex // guards samples
	samples []sample
}

func startSampler(o *outbox) *sampler {
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.t.Context()))
	s := &sampler{o: o, cancel: cancel, done: make(chan struct{})}
	go s.run(ctx)
	return s
}

// stop ends the sampling and waits for that.
func (s *sampler) stop() {
	s.cancel()
	<-s.done
}

// taken returns the samples so far.
func (s *sampler) taken() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.samples[:len(s.samples):len(s.samples)]
}

// confirmed returns the slot's position of the latest sample, 0 before the
// first.
func (s *sampler) confirmed() pglogrepl.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) == 0 {
		return 0
	}
	return s.samples[len(s.samples)-1].confirmed
}

// run takes samples until ctx ends. A server that does not answer is asked
// again.
func (s *sampler) run(ctx context.Context) {
	defer close(s.done)
	pace := time.NewTicker(cmp.Or(s.o.config.pace, samplePace))
	defer pace.Stop()
	var conn *pgx.Conn
	for ctx.Err() == nil {
		var err error
		if conn == nil {
			conn, err = s.o.pg.Connect(ctx, s.o.database)
		}
		if err == nil {
			err = s.take(ctx, conn)
		}
		if err != nil && conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
			conn = nil
		}
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
	if conn != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

// take takes one sample. A slot that does not exist gives none.
func (s *sampler) take(ctx context.Context, conn *pgx.Conn) error {
	const query = `SELECT pg_postmaster_start_time(), s.confirmed_flush_lsn::text, pg_current_wal_lsn()::text,
		coalesce(s.active_pid, 0), r.flush_lsn::text
		FROM pg_replication_slots AS s LEFT JOIN pg_stat_replication AS r ON r.pid = s.active_pid
		WHERE s.slot_name = $1 AND s.confirmed_flush_lsn IS NOT NULL`
	now := sample{taken: time.Now()}
	var confirmed, walEnd string
	var flush *string
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := conn.QueryRow(limited, query, s.o.slot).Scan(&now.started, &confirmed, &walEnd, &now.walsender, &flush)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if now.confirmed, err = pglogrepl.ParseLSN(confirmed); err != nil {
		return err
	}
	if now.walEnd, err = pglogrepl.ParseLSN(walEnd); err != nil {
		return err
	}
	if flush != nil {
		now.reported = true
		if now.flush, err = pglogrepl.ParseLSN(*flush); err != nil {
			return err
		}
	}
	asking, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if ends, err := trueEnds(asking, s.o.kafka, s.o.topics()); err == nil {
		now.ends = ends
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, now)
	return nil
}

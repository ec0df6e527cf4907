//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestSplitBrain lets four writers that all believe they own the slot publish
// the same events to one partition, with freezes at any point and lost answers.
// Acquiring is the only thing that they have in common. Nothing may be missing,
// doubled or out of order.
func TestSplitBrain(t *testing.T) {
	t.Run("one broker", func(t *testing.T) {
		splitBrain{kafka: harness.SharedKafka(t, 1), events: 300, freeze: 100 * time.Millisecond}.run(t)
	})
	runLong(t, "three brokers of which one is killed again and again", func(t *testing.T) {
		kafka := harness.NewKafka(t, harness.KafkaConfig{Brokers: 3})
		splitBrain{kafka: kafka, events: 3000, freeze: 250 * time.Millisecond, kill: true}.run(t)
	})
}

// splitBrain is one such experiment.
type splitBrain struct {
	kafka  *harness.Kafka
	events int
	// freeze is how long a writer stands still at most.
	freeze time.Duration
	// kill has brokers killed and started again while the writers write.
	kill bool
}

func (s splitBrain) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	topic := harness.NewTopic(t, s.kafka, harness.TopicConfig{})
	var acquisitions, refusals atomic.Int64
	var writers errgroup.Group
	for seed := range uint64(4) {
		w := &writer{
			splitBrain:    s,
			testPartition: openPartition(t, openCluster(t, s.kafka.Addrs()), topic),
			random:        rand.New(rand.NewPCG(seed, 7)),
			acquisitions:  &acquisitions,
			refusals:      &refusals,
		}
		writers.Go(func() error { return w.write(ctx) })
	}
	written := make(chan struct{})
	var killer errgroup.Group
	if s.kill {
		killer.Go(func() error { return s.killBrokers(ctx, written) })
	}
	err := writers.Wait()
	close(written)
	if err := errors.Join(err, killer.Wait()); err != nil {
		t.Fatal(err)
	}
	s.check(t, topic)
	t.Logf("%d events, %d acquisitions, %d batches refused", s.events, acquisitions.Load(), refusals.Load())
}

// killBrokers takes one broker away after the other.
func (s splitBrain) killBrokers(ctx context.Context, written <-chan struct{}) error {
	for i := 0; ; i = (i + 1) % len(s.kafka.Brokers()) {
		select {
		case <-written:
			return nil
		case <-time.After(3 * time.Second):
		}
		if err := s.kafka.Broker(i).Kill(); err != nil {
			return err
		}
		if err := s.kafka.Broker(i).Start(ctx); err != nil {
			return err
		}
	}
}

// check compares the partition with the events.
func (s splitBrain) check(t *testing.T, topic string) {
	t.Helper()
	records, err := s.kafka.ReadAll(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		if n, err := strconv.Atoi(string(r.Value)); err != nil || n != i+1 {
			t.Fatalf("record %d holds event %s, want event %d", i, r.Value, i+1)
		}
	}
	if len(records) != s.events {
		t.Fatalf("%d records for %d events", len(records), s.events)
	}
}

// writer is one of the processes.
type writer struct {
	splitBrain
	*testPartition
	random                 *rand.Rand
	acquisitions, refusals *atomic.Int64
}

// write publishes until everything is in the partition.
func (w *writer) write(ctx context.Context) error {
	for {
		acquired, err := w.acquireWithFreezes(ctx)
		if err != nil {
			return err
		}
		next := 1
		if acquired.tail != nil {
			next = numberOf(acquired.tail) + 1
		}
		if next > w.events {
			return nil
		}
		if err := w.writeFrom(ctx, acquired.identity, next); err != nil {
			return err
		}
	}
}

// acquireWithFreezes is acquire, standing still now and then between its steps.
func (w *writer) acquireWithFreezes(ctx context.Context) (acquisition, error) {
	for {
		w.acquisitions.Add(1)
		a := newAcquiring(w.cluster, w.request())
		acquired, err := a.roundWith(ctx, func(int) { w.maybeFreeze(ctx, 5) })
		switch {
		case err == nil:
			return acquired, nil
		case isFenced(err), errors.Is(err, errNoMarker), errors.Is(err, errTruncated):
			w.maybeFreeze(ctx, 1)
		default:
			return acquired, err
		}
	}
}

// writeFrom sends small batches until one is refused, its outcome is unknown, or
// its answer gets lost. The partition has to be acquired again then.
func (w *writer) writeFrom(ctx context.Context, id identity, next int) error {
	for sequence := int32(0); next <= w.events; {
		last := min(next+w.random.IntN(6), w.events)
		w.maybeFreeze(ctx, 8)
		_, err := w.try(ctx, eventBatch(id, sequence, next, last, time.Now()))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			w.refusals.Add(1)
			// Somebody has to find the new leader.
			_, _ = w.cluster.leaders(ctx, w.topic)
			return nil
		}
		if w.random.IntN(40) == 0 {
			return nil
		}
		sequence += int32(last - next + 1)
		next = last + 1
	}
	return nil
}

// maybeFreeze stands still in one of n cases.
func (w *writer) maybeFreeze(ctx context.Context, n int) {
	if w.random.IntN(n) == 0 {
		_ = sleep(ctx, time.Duration(w.random.Int64N(int64(w.freeze))))
	}
}

// numberOf is the number of the event that position made the tail's position of.
func numberOf(t *tail) int { return int(t.position.Index) }

// TestTwoPublishersBelieveThatTheyOwnTheSlot lets two whole publishers publish
// the same history at the same time, with an owner that lies to both: it says
// whenever it is asked that the slot is theirs. They shut each other out, again
// and again, and what they write together is there once, in order.
func TestTwoPublishersBelieveThatTheyOwnTheSlot(t *testing.T) {
	t.Parallel() // it mostly waits
	kafka := harness.SharedKafka(t, 1)
	topic := harness.NewTopic(t, kafka, harness.TopicConfig{Partitions: 3})
	length := 100
	if harness.Long() {
		length = 3000
	}
	transactions := manyOrders(length, 3).transactions
	var believers errgroup.Group
	var retries atomic.Int64
	for seed := range uint64(2) {
		p := past{history: &history{transactions: transactions}, t: t, brokers: kafka.Addrs(), topic: topic, admin: kafka.Admin()}
		random := rand.New(rand.NewPCG(seed, 11))
		believers.Go(func() error {
			for {
				err := p.believe(t.Context(), random)
				if !errors.Is(err, ErrStartOver) {
					return err
				}
				retries.Add(1)
			}
		})
	}
	if err := believers.Wait(); err != nil {
		t.Fatal(err)
	}
	want := make(map[int32][]string)
	for _, tx := range transactions {
		for _, e := range tx.events {
			p := partitionOf([]byte(e.aggregateID.(string)), 3)
			want[p] = append(want[p], e.id.(string))
		}
	}
	p := past{t: t, brokers: kafka.Addrs(), topic: topic, admin: kafka.Admin()}
	for partition, records := range p.records() {
		if got := ids(records); !slices.Equal(got, want[partition]) {
			t.Errorf("partition %d:\n got %v\nwant %v", partition, got, want[partition])
		}
	}
	t.Logf("%d sessions started over", retries.Load())
}

// believe is one session that is fed with pauses, as a backlog would not be.
func (p past) believe(ctx context.Context, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	publisher, err := New(p.config(), NewMetrics(prometheus.NewRegistry()), testLog(p.t))
	if err != nil {
		return err
	}
	defer publisher.Close()
	streaming, stop := context.WithCancel(ctx)
	source, entries := make(chan *decoder.Chunk), make(chan *decoder.Chunk)
	var feeding errgroup.Group
	feeding.Go(func() error {
		p.stream(streaming, source)
		return nil
	})
	feeding.Go(func() error {
		defer close(entries)
		for chunk := range source {
			_ = sleep(streaming, time.Duration(random.Int64N(int64(5*time.Millisecond))))
			select {
			case entries <- chunk:
			case <-streaming.Done():
			}
		}
		return nil
	})
	err = publisher.Run(ctx, p.session(entries, &letters{}))
	stop()
	_ = feeding.Wait()
	return err
}

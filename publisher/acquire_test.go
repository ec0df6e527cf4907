//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestAcquire(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())

	t.Run("an empty partition", func(t *testing.T) {
		p := newPartition(t, kafka, c, harness.TopicConfig{})
		got := p.acquire()
		if got.mode != acquiredExact || got.tail != nil || got.endOffset != 0 {
			t.Errorf("got %+v, want an exact acquisition from offset 0 without tail", got)
		}
		p.mustSend(eventBatch(got.identity, 0, 1, 3, time.Now()))
	})

	t.Run("its own records", func(t *testing.T) {
		p := newPartition(t, kafka, c, harness.TopicConfig{})
		first := p.acquire()
		offset := p.mustSend(eventBatch(first.identity, 0, 1, 3, time.Now()))
		second := p.acquire()
		p.wantTail(second, 3, offset+2)
		if second.producerID != first.producerID || second.epoch != first.epoch+1 {
			t.Errorf("got %+v after %+v, want the same producer with the next epoch", second.identity, first.identity)
		}
	})

	t.Run("a predecessor is shut out", func(t *testing.T) {
		p := newPartition(t, kafka, c, harness.TopicConfig{})
		first := p.acquire()
		p.mustSend(eventBatch(first.identity, 0, 1, 3, time.Now()))
		second := p.acquire()
		p.wantRefused(eventBatch(first.identity, 3, 4, 4, time.Now()), sarama.ErrInvalidProducerEpoch)
		p.mustSend(eventBatch(second.identity, 0, 4, 4, time.Now()))
		p.wantRefused(eventBatch(first.identity, 3, 4, 4, time.Now()), sarama.ErrInvalidProducerEpoch)
	})

	t.Run("a sequence that is sent again is written once", func(t *testing.T) {
		p := newPartition(t, kafka, c, harness.TopicConfig{})
		acquired := p.acquire()
		batch := eventBatch(acquired.identity, 0, 1, 3, time.Now())
		first, again := p.mustSend(batch), p.mustSend(batch)
		if first != again {
			t.Errorf("sent again it is at offset %d, want %d", again, first)
		}
		p.wantRefused(eventBatch(acquired.identity, 5, 6, 6, time.Now()), sarama.ErrOutOfOrderSequenceNumber)
	})
}

func TestAcquireTellsLostData(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	compacted := harness.TopicConfig{Settings: map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100"}}

	// Each partition holds a control batch at offset 0, events 1 to 3 at 1 to
	// 3, another control batch at 4.
	type lostDataCase struct {
		name   string
		config harness.TopicConfig
		known  acknowledged
		before func(p *testPartition)
		lost   bool
	}
	tests := []lostDataCase{
		{name: "the last acknowledged record is the tail", known: acknowledged{3, position(3)}},
		{name: "the last acknowledged record is further back", known: acknowledged{2, position(2)}},
		{name: "the partition is shorter", known: acknowledged{9, position(9)}, lost: true},
		{name: "the partition ends right before it", known: acknowledged{5, position(4)}, lost: true},
		{name: "another event stands there", known: acknowledged{2, position(7)}, lost: true},
		{name: "the same event with another commit time stands there", known: acknowledged{3, earlier(position(3))}, lost: true},
		{name: "a control batch stands there", known: acknowledged{4, position(4)}, lost: true},
		{name: "retention took it", known: acknowledged{2, position(7)}, before: func(p *testPartition) {
			deleteBefore(p, kafka, 3)
		}},
	}
	if long() {
		tests = append(tests, lostDataCase{name: "compaction took it", config: compacted, known: acknowledged{1, position(1)}, before: func(p *testPartition) {
			p.compactAway(kafka, 1)
		}})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newPartition(t, kafka, c, test.config)
			acquired := p.acquire()
			p.mustSend(eventBatch(acquired.identity, 0, 1, 3, time.Now()))
			p.acquire()
			if test.before != nil {
				test.before(p)
			}
			p.known = &test.known
			_, err := p.tryAcquire(20 * time.Second)
			var lost *lostDataError
			if test.lost && !errors.As(err, &lost) || !test.lost && err != nil {
				t.Errorf("got error %v, want lost data %t", err, test.lost)
			}
			if lost != nil && lost.acknowledged != test.known {
				t.Errorf("error names %+v, want %+v", lost.acknowledged, test.known)
			}
		})
	}
}

// earlier is the same place in another history of the server.
func earlier(p decoder.Position) decoder.Position {
	p.CommitTime--
	return p
}

// compactAway writes the key of event n again until the record at offset n is
// gone.
func (p *testPartition) compactAway(kafka *harness.Kafka, n int64) {
	p.t.Helper()
	harness.Eventually(p.t, 40*time.Second, func() error {
		record := &sarama.Record{Key: fmt.Append(nil, "key", n), Value: []byte("newer")}
		p.mustSend(newBatch(anonymous, -1, time.Now(), record))
		records, err := kafka.ReadAll(p.t.Context(), p.topic)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Offset == n {
				return fmt.Errorf("offset %d is still there", n)
			}
		}
		return nil
	})
}

func TestAcquireNoticesAnotherTopicOfTheSameName(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	p.acquire()
	if err := kafka.DeleteTopic(t.Context(), p.topic); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 20*time.Second, func() error {
		return kafka.CreateTopic(t.Context(), p.topic, harness.TopicConfig{})
	})
	if _, err := p.tryAcquire(20 * time.Second); !errors.Is(err, errTopicReplaced) {
		t.Errorf("got %v, want %v", err, errTopicReplaced)
	}
}

func TestAcquireUnknownTopic(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	if err := kafka.DeleteTopic(t.Context(), p.topic); err != nil {
		t.Fatal(err)
	}
	_, err := p.tryAcquire(20 * time.Second)
	if !errors.Is(err, sarama.ErrUnknownTopicOrPartition) || classify(err).class != classOperator {
		t.Errorf("got %v, want an operator error with %v", err, sarama.ErrUnknownTopicOrPartition)
	}
}

// TestAcquireBySeveralAtOnce lets six processes take the same partition. Each of
// them is told in the end that it has it, but only one can write.
func TestAcquireBySeveralAtOnce(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	topic := harness.NewTopic(t, kafka, harness.TopicConfig{})
	var parties []*testPartition
	for range 6 {
		parties = append(parties, openPartition(t, openCluster(t, kafka.Addrs()), topic))
	}
	acquired := make([]acquisition, len(parties))
	var racing errgroup.Group
	for i, p := range parties {
		racing.Go(func() (err error) {
			acquired[i], err = p.tryAcquire(time.Minute)
			return err
		})
	}
	if err := racing.Wait(); err != nil {
		t.Fatal(err)
	}
	winners := 0
	for i, p := range parties {
		switch _, err := p.send(eventBatch(acquired[i].identity, 0, 1, 1, time.Now())); {
		case err == nil:
			winners++
		case !errors.Is(err, sarama.ErrInvalidProducerEpoch):
			t.Errorf("party %d was refused with %v, want %v", i, err, sarama.ErrInvalidProducerEpoch)
		}
	}
	if winners != 1 {
		t.Errorf("%d parties could write, want 1", winners)
	}
}

// TestAcquireAsksWhoOwnsTheSlot checks that nobody is shut out a second time by
// one that has lost the slot meanwhile.
func TestAcquireAsksWhoOwnsTheSlot(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	loser := newPartition(t, kafka, c, harness.TopicConfig{})
	winner := openPartition(t, c, loser.topic)
	lost := errors.New("the slot is held by another process")
	loser.ours = func(context.Context) error { return lost }

	// The winner comes between the loser's producer id and its transaction.
	a := newAcquiring(c, loser.request())
	var early acquisition
	if err := a.takeProducer(t.Context(), &early); err != nil {
		t.Fatal(err)
	}
	late := winner.acquire()
	err := a.beginTransaction(t.Context(), &early)
	if !isFenced(err) {
		t.Fatalf("transaction of a predecessor: got %v, want it refused", err)
	}
	pause := backoff{firstPause, longPause}
	if err := a.beforeNextRound(t.Context(), &pause, err); !errors.Is(err, lost) {
		t.Errorf("before another round: got %v, want %v", err, lost)
	}
	winner.mustSend(eventBatch(late.identity, 0, 1, 1, time.Now()))
}

// TestAcquireAfterAbsence covers processes that were away for too long, with
// times of seconds instead of days.
func TestAcquireAfterAbsence(t *testing.T) {
	kafka := harness.NewKafka(t, harness.KafkaConfig{Properties: map[string]string{
		"transactional.id.expiration.ms":                              "2000",
		"transaction.remove.expired.transaction.cleanup.interval.ms":  "500",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
	}})
	t.Run("frozen between the beginning and the end of its transaction", func(t *testing.T) {
		t.Parallel()
		testAcquireAfterFreeze(t, kafka)
	})
	t.Run("longer than the coordinator remembers it", func(t *testing.T) {
		t.Parallel()
		testAcquireAfterExpiry(t, kafka)
	})
}

// testAcquireAfterFreeze: the transaction took longer than it may, so the
// coordinator has ended it and shuts its owner out, although that owns the slot.
func testAcquireAfterFreeze(t *testing.T, kafka *harness.Kafka) {
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	first := p.acquire()
	p.mustSend(eventBatch(first.identity, 0, 1, 1, time.Now()))

	a := newAcquiring(p.cluster, p.request())
	var frozen acquisition
	for _, step := range []func(context.Context, *acquisition) error{a.takeProducer, a.noteBounds, a.beginTransaction} {
		if err := step(t.Context(), &frozen); err != nil {
			t.Fatal(err)
		}
	}
	awaitTransactionState(t, kafka, p.txnID, "CompleteAbort", transactionTimeout+10*time.Second)
	if err := a.endTransaction(t.Context(), &frozen); !isFenced(err) {
		t.Fatalf("end of a transaction that the coordinator ended: got %v, want it refused", err)
	}
	p.wantRefused(eventBatch(frozen.identity, 0, 2, 2, time.Now()), sarama.ErrInvalidProducerEpoch)
	again := p.acquire()
	p.wantTail(again, 1, 1)
	p.mustSend(eventBatch(again.identity, 0, 2, 2, time.Now()))
}

// awaitTransactionState waits until the coordinator says that it has a
// transactional id in this state, or does not have it at all if state is empty.
func awaitTransactionState(t testing.TB, kafka *harness.Kafka, id, state string, limit time.Duration) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		described, err := kafka.Admin().DescribeTransactions(t.Context(), id)
		if err != nil {
			return err
		}
		got := described[id]
		if state == "" && errors.Is(got.Err, kerr.TransactionalIDNotFound) {
			return nil
		}
		if got.Err != nil {
			return got.Err
		}
		if got.State != state {
			return fmt.Errorf("transactional id %s is in state %s", id, got.State)
		}
		return nil
	})
}

// testAcquireAfterExpiry: the coordinator has forgotten the transactional id, so
// the successor has another producer id, and what the old one still
// has under way is waited for.
func testAcquireAfterExpiry(t *testing.T, kafka *harness.Kafka) {
	said := make(chan struct{}, 1)
	c := openCluster(t, kafka.Addrs(), func(conf *clusterConfig) {
		conf.Log = slog.New(signalHandler{conf.Log.Handler(), "looking again", said})
	})
	p := newPartition(t, kafka, c, harness.TopicConfig{})
	first := p.acquire()
	p.mustSend(eventBatch(first.identity, 0, 1, 1, time.Now()))
	awaitTransactionState(t, kafka, p.txnID, "", 20*time.Second)

	var second acquisition
	var acquiring errgroup.Group
	acquiring.Go(func() (err error) {
		second, err = p.tryAcquire(time.Minute)
		return err
	})
	select {
	case <-said:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was said about the old producer id")
	}
	offset := p.mustSend(eventBatch(first.identity, 1, 2, 2, time.Now()))
	if err := acquiring.Wait(); err != nil {
		t.Fatal(err)
	}
	if second.producerID == first.producerID {
		t.Fatalf("both have producer id %d, want the first one forgotten", first.producerID)
	}
	p.wantTail(second, 2, offset)
}

// signalHandler sends on said when a line contains a text.
type signalHandler struct {
	slog.Handler
	text string
	said chan<- struct{}
}

func (h signalHandler) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.text) {
		select {
		case h.said <- struct{}{}:
		default:
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h signalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

func (h signalHandler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

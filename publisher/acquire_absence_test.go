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

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

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
	for _, step := range a.steps()[:3] {
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

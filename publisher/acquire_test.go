//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

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

	t.Run("a predecessor that died in the middle of its transaction", func(t *testing.T) {
		p := newPartition(t, kafka, c, harness.TopicConfig{})
		first := p.acquire()
		p.mustSend(eventBatch(first.identity, 0, 1, 1, time.Now()))
		dying := newAcquiring(c, p.request())
		var unfinished acquisition
		for _, step := range dying.steps()[:3] {
			if err := step(t.Context(), &unfinished); err != nil {
				t.Fatal(err)
			}
		}
		got := p.acquire()
		p.wantTail(got, 1, 1)
		if got.producerID != first.producerID || got.epoch <= unfinished.epoch {
			t.Errorf("got %+v after %+v, want the same producer with a later epoch", got.identity, unfinished.identity)
		}
		if err := dying.endTransaction(t.Context(), &unfinished); !isFenced(err) {
			t.Errorf("end of the predecessor's transaction: got %v, want it refused", err)
		}
		p.mustSend(eventBatch(got.identity, 0, 2, 2, time.Now()))
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

func TestAcquireNoticesAnotherTopicOfTheSameName(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	p.acquire()
	if err := kafka.DeleteTopic(t.Context(), p.topic); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 20*time.Second, func() error {
		// A broker may answer for the topic that was deleted for a moment more.
		known, err := kafka.Admin().ListTopics(t.Context(), p.topic)
		if err == nil && known.Has(p.topic) {
			err = errors.New("the broker still knows the topic that was deleted")
		}
		return err
	})
	if err := kafka.CreateTopic(t.Context(), p.topic, harness.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
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
	if err := a.beforeNextRound(t.Context(), roundPauses().after(err)); !errors.Is(err, lost) {
		t.Errorf("before another round: got %v, want %v", err, lost)
	}
	winner.mustSend(eventBatch(late.identity, 0, 1, 1, time.Now()))
}

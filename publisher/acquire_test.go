//go:build linux || darwin

package publisher

import (
	"testing"
	"time"

	"github.com/IBM/sarama"

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

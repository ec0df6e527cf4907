//go:build linux || darwin

package publisher

import (
	"context"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestAcquireAcrossRestarts covers what brokers remember when they come back.
func TestAcquireAcrossRestarts(t *testing.T) {
	kafka := harness.NewKafka(t, harness.KafkaConfig{})
	t.Run("a killed broker knows the fence and the sequences", func(t *testing.T) {
		testFenceSurvives(t, kafka, (*harness.Broker).Kill)
	})
	runLong(t, "a stopped broker knows the fence and the sequences", func(t *testing.T) {
		testFenceSurvives(t, kafka, func(b *harness.Broker) error {
			_, err := b.Stop(t.Context())
			return err
		})
	})
	runLong(t, "a restarted broker has forgotten the producers of old records", func(t *testing.T) {
		testForgottenProducer(t, kafka)
	})
}

// restart ends the only broker and starts it again.
func restart(t *testing.T, kafka *harness.Kafka, end func(*harness.Broker) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := end(kafka.Broker(0)); err != nil {
		t.Fatal(err)
	}
	if err := kafka.Broker(0).Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func testFenceSurvives(t *testing.T, kafka *harness.Kafka, end func(*harness.Broker) error) {
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	first := p.acquire()
	p.mustSend(eventBatch(first.identity, 0, 1, 1, time.Now()))
	second := p.acquire()
	batch := eventBatch(second.identity, 0, 2, 2, time.Now())
	offset := p.mustSend(batch)

	restart(t, kafka, end)
	p.wantRefused(eventBatch(first.identity, 1, 2, 2, time.Now()), sarama.ErrInvalidProducerEpoch)
	if again := p.mustSend(batch); again != offset {
		t.Errorf("sent again after the restart it is at offset %d, want %d", again, offset)
	}
	p.wantTail(p.acquire(), 2, offset)
}

// testForgottenProducer shows why a batch in doubt must not simply be sent again
// when its records are old: a broker forgets producers by the timestamps of their
// records, and appends the batch a second time. One that acquires finds it.
func testForgottenProducer(t *testing.T, kafka *harness.Kafka) {
	c := openCluster(t, kafka.Addrs())
	old := time.Now().Add(-48 * time.Hour)
	write := func() (p *testPartition, batch *sarama.RecordBatch, offset int64) {
		p = newPartition(t, kafka, c, harness.TopicConfig{})
		batch = eventBatch(p.acquire().identity, 0, 1, 1, old)
		return p, batch, p.mustSend(batch)
	}
	trusting, batch, offset := write()
	looking, _, found := write()

	restart(t, kafka, (*harness.Broker).Kill)
	if again := trusting.mustSend(batch); again == offset {
		t.Errorf("the broker remembers the producer of a record that is 48 hours old; the rule about batches in doubt can be relaxed")
	}
	looking.wantTail(looking.acquire(), 1, found)
}

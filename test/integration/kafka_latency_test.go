//go:build linux || darwin

package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaLatencyAndThroughput publishes one event at a time on an idle
// system, each of which takes about as long as a record that is produced
// directly, and then drains a backlog in the same configuration.
//
// Behaviours: K7
func TestKafkaLatencyAndThroughput(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 3})
	r := o.start()
	o.insert(60) // each partition is acquired
	consumer := o.follow()
	consumer.await(o.insertOne(nil))
	rows, direct := consumer.trickle(30), produceEach(t, k, 30)
	t.Logf("commit to consumer: median %s of %v", median(rows), rows)
	t.Logf("produced directly, to consumer: median %s of %v", median(direct), direct)
	// The walsender has to wake up, and the relay; nobody has to wait for a
	// timer.
	if got, limit := median(rows), 3*median(direct)+20*time.Millisecond; got > limit {
		t.Errorf("an event takes %s from its commit to the consumer, want at most %s", got, limit)
	}

	r.stop()
	const backlog = 20_000
	tx := o.begin()
	tx.bulk(backlog, 200)
	tx.commit()
	r = o.start()
	begun := time.Now()
	o.awaitDrained()
	rate := float64(backlog) / time.Since(begun).Seconds()
	t.Logf("drained at %.0f rows/s", rate)
	if rate < 3000 {
		t.Errorf("a backlog is drained at %.0f rows/s", rate)
	}
	r.stop()
	o.verify()
}

// trickle commits n rows, each when the one before has arrived, and returns how
// long each took from its commit to the consumer.
func (f *follower) trickle(n int) []time.Duration {
	f.o.t.Helper()
	var latencies []time.Duration
	for range n {
		latencies = append(latencies, f.await(f.o.insertOne(nil)))
	}
	return latencies
}

// follower is a consumer of an outbox's topics.
type follower struct {
	o       *outbox
	records <-chan harness.Record
}

// follow starts a consumer, which reads until the end of the test.
func (o *outbox) follow() *follower {
	o.t.Helper()
	records, err := o.kafka.Follow(o.t.Context(), o.topics()...)
	if err != nil {
		o.t.Fatal(err)
	}
	return &follower{o, records}
}

// await waits for the event with a number and returns how long it took from its
// commit, which the position tells, to here.
func (f *follower) await(number int64) time.Duration {
	f.o.t.Helper()
	var latency time.Duration
	awaitRecord(f.o.t, f.records, func(r harness.Record) bool {
		at := time.Now()
		if id, _ := r.Header("event_id"); id != idOf(number) {
			return false
		}
		header, _ := r.Header("position")
		position, err := decoder.ParsePosition(header)
		if err != nil {
			f.o.t.Fatal(err)
		}
		latency = at.Sub(time.UnixMicro(position.CommitTime))
		return true
	})
	return latency
}

// awaitRecord reads until a record is the wanted one.
func awaitRecord(t testing.TB, records <-chan harness.Record, wanted func(harness.Record) bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case r, open := <-records:
			if !open {
				t.Fatal("the consumer has ended")
			}
			if wanted(r) {
				return
			}
		case <-timeout:
			t.Fatalf("the record has not arrived within %s", patience)
		}
	}
}

// produceEach produces n records, each when the one before has arrived, and
// returns how long each took from there to a consumer.
func produceEach(t testing.TB, k *harness.Kafka, n int) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	topic := harness.NewTopic(t, k, harness.TopicConfig{})
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	arrivals, err := k.Follow(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	var latencies []time.Duration
	for i := range n + 3 {
		begun := time.Now()
		client.Produce(ctx, &kgo.Record{Value: []byte{byte(i)}}, nil)
		awaitRecord(t, arrivals, func(r harness.Record) bool { return r.Value[0] == byte(i) })
		if i >= 3 { // connections and consumer are warm
			latencies = append(latencies, time.Since(begun))
		}
	}
	return latencies
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

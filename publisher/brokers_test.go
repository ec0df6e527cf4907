//go:build linux || darwin

package publisher

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

const testOrigin = "test-origin"

// testLog shows what the code under test says if the test fails or -v is given.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// openCluster returns a cluster on the given addresses; change adjusts its
// configuration.
func openCluster(t testing.TB, addrs []string, change ...func(*clusterConfig)) *cluster {
	t.Helper()
	conf := clusterConfig{
		Bootstrap:    addrs,
		Fence:        FenceAuto,
		StartTimeout: 30 * time.Second,
		Log:          testLog(t),
	}
	for _, f := range change {
		f(&conf)
	}
	c, err := newCluster(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// testPartition is partition 0 of a topic of its own, seen through one cluster.
type testPartition struct {
	t        testing.TB
	cluster  *cluster
	topic    string
	topicID  sarama.Uuid
	txnID    string
	plain    bool
	known    *acknowledged
	ours     func(context.Context) error
	refusals []error
}

func newPartition(t testing.TB, kafka *harness.Kafka, c *cluster, config harness.TopicConfig) *testPartition {
	t.Helper()
	return openPartition(t, c, harness.NewTopic(t, kafka, config))
}

// openPartition is how another process would see a topic that exists.
func openPartition(t testing.TB, c *cluster, topic string) *testPartition {
	t.Helper()
	metadata, err := c.topic(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return &testPartition{
		t: t, cluster: c, topic: topic, topicID: metadata.id,
		txnID: "outbox-cdc.1.test." + topic + ".0",
		ours:  func(context.Context) error { return nil },
	}
}

func (p *testPartition) request() acquireRequest {
	return acquireRequest{
		transactionalID: p.txnID,
		topic:           p.topic,
		topicID:         p.topicID,
		origin:          testOrigin,
		eventIDHeader:   "event_id",
		positionHeader:  "position",
		acknowledged:    p.known,
		plain:           p.plain,
		stillOurs:       p.ours,
		fault: func(err error) {
			p.refusals = append(p.refusals, err)
			p.cluster.log.Debug("attempt failed", "error", err)
		},
	}
}

// acquire acquires the partition; the test fails if it cannot be.
func (p *testPartition) acquire() acquisition {
	p.t.Helper()
	acquired, err := p.tryAcquire(time.Minute)
	if err != nil {
		p.t.Fatalf("acquire: %v", err)
	}
	return acquired
}

func (p *testPartition) tryAcquire(limit time.Duration) (acquisition, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	return p.cluster.acquire(ctx, p.request())
}

// position is that of event number n.
func position(n int) decoder.Position {
	return decoder.Position{CommitLSN: pglogrepl.LSN(1000 + n), Index: uint32(n), CommitTime: 1_700_000_000_000_000 + int64(n)}
}

// eventRecord is event number n as the publisher would write it.
func eventRecord(n int, origin string) *sarama.Record {
	header := func(key, value string) *sarama.RecordHeader {
		return &sarama.RecordHeader{Key: []byte(key), Value: []byte(value)}
	}
	return &sarama.Record{
		Key:   []byte(fmt.Sprint("key", n)),
		Value: []byte(fmt.Sprint(n)),
		Headers: []*sarama.RecordHeader{
			header("event_id", fmt.Sprint("event", n)),
			header("position", position(n).String()),
			header("origin", origin),
		},
	}
}

// eventBatch is a batch of the events numbered from first to last.
func eventBatch(id identity, sequence int32, first, last int, at time.Time) *sarama.RecordBatch {
	var records []*sarama.Record
	for n := first; n <= last; n++ {
		records = append(records, eventRecord(n, testOrigin))
	}
	return newBatch(id, sequence, at, records...)
}

func newBatch(id identity, sequence int32, at time.Time, records ...*sarama.Record) *sarama.RecordBatch {
	at = at.Truncate(time.Millisecond)
	for i, record := range records {
		record.OffsetDelta = int64(i)
	}
	return &sarama.RecordBatch{
		Version: 2, FirstTimestamp: at, MaxTimestamp: at,
		ProducerID: id.producerID, ProducerEpoch: id.epoch, FirstSequence: sequence,
		LastOffsetDelta: int32(len(records) - 1), Records: records,
	}
}

// anonymous produces without idempotence, as others on the topic do.
var anonymous = identity{-1, -1}

// try sends one batch once and returns the offset of its first record.
func (p *testPartition) try(ctx context.Context, batch *sarama.RecordBatch) (int64, error) {
	leader, _, err := p.cluster.leader(ctx, p.topic, 0, time.Time{})
	if err != nil {
		return 0, err
	}
	request := &sarama.ProduceRequest{Version: produceVersion, RequiredAcks: sarama.WaitForAll, Timeout: int32(produceTimeout / time.Millisecond)}
	request.AddBatch(p.topic, 0, batch)
	var offset int64
	err = p.cluster.call(ctx, leader, func(broker *sarama.Broker) error {
		answer, err := broker.Produce(request)
		if err != nil {
			return err
		}
		block := answer.GetBlock(p.topic, 0)
		offset = block.Offset
		return refusal(block.Err)
	})
	return offset, err
}

// send sends one batch until it is answered for good and returns the offset of
// its first record, or the refusal.
func (p *testPartition) send(batch *sarama.RecordBatch) (int64, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	pause := backoff{firstPause, longPause}
	for {
		offset, err := p.try(ctx, batch)
		if err == nil || ctx.Err() == nil && classify(err).class != classTransient {
			return offset, err
		}
		if err := pause.wait(ctx); err != nil {
			p.t.Fatalf("send: %v", err)
		}
		if _, err := p.cluster.leaders(ctx, p.topic); err != nil {
			p.t.Log(err)
		}
	}
}

// mustSend is send for a batch that must be taken.
func (p *testPartition) mustSend(batch *sarama.RecordBatch) int64 {
	p.t.Helper()
	offset, err := p.send(batch)
	if err != nil {
		p.t.Fatalf("send: %v", err)
	}
	return offset
}

// wantRefused expects a batch to be refused with a code.
func (p *testPartition) wantRefused(batch *sarama.RecordBatch, want sarama.KError) {
	p.t.Helper()
	if offset, err := p.send(batch); err == nil {
		p.t.Fatalf("batch was written at offset %d, want it refused with %d", offset, want)
	} else if got, _ := codeOf(err); got != want {
		p.t.Fatalf("batch was refused with %d (%v), want %d", got, err, want)
	}
}

// wantTail compares the tail of an acquisition with event number n.
func (p *testPartition) wantTail(acquired acquisition, n int, offset int64) {
	p.t.Helper()
	want := tail{position: position(n), eventID: fmt.Sprint("event", n), offset: offset}
	if acquired.tail == nil {
		p.t.Fatalf("no tail found, want %+v", want)
	}
	want.producerID = acquired.tail.producerID
	if *acquired.tail != want {
		p.t.Fatalf("tail is %+v, want %+v", *acquired.tail, want)
	}
}

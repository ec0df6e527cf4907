package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

func testConfig(brokers []string) Config {
	return Config{
		Brokers: brokers, KafkaVersion: "2.8.0",
		Routing: Routing{Topic: "outbox.event.{aggregate_type}", Key: KeyEventID, PartitionBy: PartitionByAggregateID}, PositionHeaders: true,
		Form:        Form{Headers: HeadersPlain, Timestamp: TimestampCommit},
		Compression: "none", OnPoison: PolicyDeadLetter, OnUnknownTopic: UnknownTopicWait, Fence: FenceAuto,
		MaxInFlightBytes: 8 << 20, StartTimeout: 5 * time.Second,
	}
}

func newFake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newTestPublisher(t *testing.T, cfg Config) *Publisher {
	t.Helper()
	p, err := New(cfg, NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// readAll returns the records of a topic by partition.
func readAll(t *testing.T, brokers []string, topic string, want int) map[int32][]*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got := make(map[int32][]*kgo.Record)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for n := 0; n < want; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got[r.Partition] = append(got[r.Partition], r)
			n++
		})
	}
	return got
}

// check is the oracle: every event once, in the partition of its aggregate, in
// commit order, and the slot confirmed to the end.
func (h *history) check(t *testing.T, brokers []string, partitions int, except ...string) {
	t.Helper()
	want := make(map[int32][]string)
	total := 0
	for _, tx := range h.transactions {
		for _, e := range tx.events {
			if id := fmt.Sprint(e.id); !slices.Contains(except, id) {
				p := partitionOf([]byte(fmt.Sprint(e.aggregateID)), partitions)
				want[p] = append(want[p], id)
				total++
			}
		}
	}
	got := make(map[int32][]string)
	for p, records := range readAll(t, brokers, testTopic, total) {
		for _, r := range records {
			got[p] = append(got[p], string(r.Key))
		}
	}
	for p := range int32(partitions) {
		if !slices.Equal(got[p], want[p]) {
			t.Errorf("partition %d: got %d events %v, want %d %v", p, len(got[p]), got[p], len(want[p]), want[p])
		}
	}
	if h.slot() != h.end() {
		t.Errorf("slot: got confirmed to %s, want %s", h.slot(), h.end())
	}
}

func manyOrders(transactions, perTransaction int) *history {
	h := &history{}
	n := 0
	for range transactions {
		var events []event
		for range perTransaction {
			events = append(events, order(fmt.Sprintf("event-%04d", n), fmt.Sprintf("aggregate-%d", n%17)))
			n++
		}
		h.commit(events...)
	}
	return h
}

func TestPublishesEachEventOnceInOrder(t *testing.T) {
	fake := newFake(t, kfake.SeedTopics(4, testTopic))
	h := manyOrders(200, 5)
	p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
	if err := h.publish(testContext(t), t, p, &letters{}); err != nil {
		t.Fatal(err)
	}
	h.check(t, fake.ListenAddrs(), 4)
}

func TestRecordHasWhatTheMappingSays(t *testing.T) {
	fake := newFake(t, kfake.SeedTopics(1, testTopic))
	h := &history{}
	e := order("e1", "a1")
	e.metadata = `{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "n": 1.10, "o": {"x": [1]}, "event_id": "not ours"}`
	tombstone := order("e2", "a1")
	tombstone.payload = nil
	h.commit(e, tombstone)
	p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
	if err := h.publish(testContext(t), t, p, &letters{}); err != nil {
		t.Fatal(err)
	}
	records := readAll(t, fake.ListenAddrs(), testTopic, 2)[0]
	r, err := newRouter(p.cfg, h.session(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	tx := h.transactions[0]
	want := []string{
		"event_id=e1", "event_type=OrderPlaced", "aggregate_type=order", "aggregate_id=a1", "content-type=application/json",
		"position=" + decoder.Position{CommitLSN: tx.commit, CommitTime: tx.at.UnixMicro()}.String(), "origin=" + string(r.originOf(1)),
		"traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "n=1.10", `o={"x": [1]}`,
	}
	if got := headerTexts(records[0]); !slices.Equal(got, want) {
		t.Errorf("headers:\n got %q\nwant %q", got, want)
	}
	if got, want := string(records[0].Key)+" "+string(records[0].Value), `e1 {"id":"e1"}`; got != want {
		t.Errorf("record: got %s, want %s", got, want)
	}
	if got, want := records[0].Timestamp, tx.at.Truncate(time.Millisecond); !got.Equal(want) {
		t.Errorf("timestamp: got %s, want %s", got, want)
	}
	if records[1].Value != nil {
		t.Errorf("tombstone: got value %q, want none", records[1].Value)
	}
}

func headerTexts(r *kgo.Record) []string {
	var texts []string
	for _, h := range r.Headers {
		texts = append(texts, h.Key+"="+string(h.Value))
	}
	return texts
}

// Sessions that end at any moment, and brokers that refuse, lose answers and
// move leaders: every event is there once, in order.
func TestSessionsThatBreakLoseAndDoubleNothing(t *testing.T) {
	const breaks = 25
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			fake := newFake(t, kfake.SeedTopics(4, testTopic))
			h := manyOrders(2000, 4)
			p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
			for round := 0; ; round++ {
				if round < breaks {
					injectFault(fake, random)
				}
				ctx, cancel := context.WithCancel(testContext(t))
				if round < breaks {
					timer := time.AfterFunc(time.Duration(5+random.IntN(100))*time.Millisecond, cancel)
					defer timer.Stop()
				}
				err := h.publish(ctx, t, p, &letters{})
				cancel()
				if err == nil && round >= breaks {
					break
				}
				if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrStartOver) {
					t.Fatal(err)
				}
			}
			h.check(t, fake.ListenAddrs(), 4)
		})
	}
}

func injectFault(fake *kfake.Cluster, random *rand.Rand) {
	faults := []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.CoordinatorLoadInProgress, kerr.UnknownServerError,
	}
	fault := faults[random.IntN(len(faults))]
	keys := []kmsg.Key{kmsg.Produce}
	if fault == kerr.CoordinatorLoadInProgress {
		keys = []kmsg.Key{kmsg.InitProducerID}
	}
	fake.Fault(kfake.Fault{Keys: keys, Err: fault, Count: 1 + random.IntN(3)})
	if random.IntN(2) == 0 {
		fake.ShufflePartitionLeaders()
	}
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("condition was not met in time")
		}
		<-tick.C
	}
}

// A copy of one of our records, headers and all, written by somebody else into
// another partition proves nothing: it costs duplicates at worst, never an event.
func TestForeignCopyNeverBecomesALoss(t *testing.T) {
	fake := newFake(t, kfake.SeedTopics(2, testTopic))
	h := manyOrders(20, 4)
	p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
	r, err := newRouter(p.cfg, h.session(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	late := h.transactions[10]
	forged := decoder.Position{CommitLSN: late.commit, Index: 0, CommitTime: late.at.UnixMicro()}
	for partition := range int32(2) {
		forge(t, fake.ListenAddrs(), partition, forged, string(r.originOf(2)), "somebody else's")
	}
	for {
		err := h.publish(testContext(t), t, p, &letters{})
		if err == nil {
			break
		}
		if !errors.Is(err, ErrStartOver) {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	for _, records := range readAll(t, fake.ListenAddrs(), testTopic, 82) {
		for _, rec := range records {
			seen[string(rec.Key)] = true
		}
	}
	for _, tx := range h.transactions {
		for _, e := range tx.events {
			if !seen[fmt.Sprint(e.id)] {
				t.Errorf("event %s is lost", e.id)
			}
		}
	}
}

func forge(t *testing.T, brokers []string, partition int32, position decoder.Position, origin, id string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{
		Topic: testTopic, Partition: partition, Key: []byte(id), Value: []byte("{}"),
		Headers: []kgo.RecordHeader{
			{Key: eventIDHeader, Value: []byte(id)}, {Key: positionHeader, Value: []byte(position.String())}, {Key: originHeader, Value: []byte(origin)},
		},
	}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestLostOwnershipEndsTheSession(t *testing.T) {
	fake := newFake(t, kfake.SeedTopics(1, testTopic))
	h := manyOrders(5, 1)
	stolen := errors.New("the slot is held by process 4711")
	entries := make(chan *decoder.Chunk, 16)
	h.stream(t.Context(), entries)
	in := h.session(entries, &letters{})
	in.Owner = &testOwner{history: h, lost: stolen}
	if err := newTestPublisher(t, testConfig(fake.ListenAddrs())).Run(testContext(t), in); !errors.Is(err, stolen) {
		t.Errorf("got error %v, want %v", err, stolen)
	}
	if got := fake.PartitionInfo(testTopic, 0).HighWatermark; got != 0 {
		t.Errorf("got %d records and markers, want none", got)
	}
}

func TestSequenceWrapsAsInTheJavaClient(t *testing.T) {
	tests := []struct {
		first int32
		n     int
		want  int32
	}{{0, 5, 5}, {2147483640, 7, 2147483647}, {2147483640, 8, 0}, {2147483647, 1, 0}, {2147483647, 3, 2}}
	for _, tt := range tests {
		if got := advanceSequence(tt.first, tt.n); got != tt.want {
			t.Errorf("%d records behind %d: got %d, want %d", tt.n, tt.first, got, tt.want)
		}
	}
}

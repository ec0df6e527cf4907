package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
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
		Topic: "outbox.event.{aggregate_type}", Key: KeyEventID, PartitionBy: PartitionByAggregateID, PositionHeaders: true,
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
	e.metadata = `{"traceparent": "00-1", "n": 1.10, "o": {"x": [1]}, "event_id": "not ours"}`
	tombstone := order("e2", "a1")
	tombstone.payload = nil
	h.commit(e, tombstone)
	p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
	if err := h.publish(testContext(t), t, p, &letters{}); err != nil {
		t.Fatal(err)
	}
	records := readAll(t, fake.ListenAddrs(), testTopic, 2)[0]
	r, err := newRouter(p.cfg, "7000\x00test\x00pub")
	if err != nil {
		t.Fatal(err)
	}
	tx := h.transactions[0]
	want := []string{
		"event_id=e1", "event_type=OrderPlaced", "aggregate_type=order", "aggregate_id=a1", "content-type=application/json",
		"position=" + decoder.Position{CommitLSN: tx.commit, CommitTime: tx.at.UnixMicro()}.String(), "origin=" + string(r.originOf(1)),
		"traceparent=00-1", "n=1.10", `o={"x": [1]}`,
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

func TestPoisonIsSetAsideInOrder(t *testing.T) {
	bad := map[string]struct {
		event  event
		reason Reason
	}{
		"aggregate type is NULL":       {event{id: "bad", aggregateID: "a", eventType: "T", payload: "{}"}, ReasonNoAggregateType},
		"aggregate id is NULL":         {event{id: "bad", aggregateType: "order", eventType: "T", payload: "{}"}, ReasonNoAggregateID},
		"event id is NULL":             {event{aggregateType: "order", aggregateID: "a", eventType: "T", payload: "{}"}, ReasonNoID},
		"topic is no name for Kafka":   {event{id: "bad", aggregateType: "Bestellung Ä", aggregateID: "a", payload: "{}"}, ReasonInvalidTopic},
		"topic is too long":            {event{id: "bad", aggregateType: strings.Repeat("x", 250), aggregateID: "a", payload: "{}"}, ReasonInvalidTopic},
		"metadata is no JSON object":   {event{id: "bad", aggregateType: "order", aggregateID: "a", payload: "{}", metadata: "[1]"}, ReasonInvalidMetadata},
		"record larger than the topic": {event{id: "bad", aggregateType: "order", aggregateID: "a", payload: strings.Repeat("x", 200<<10)}, ReasonTooLarge},
	}
	for name, tt := range bad {
		t.Run(name, func(t *testing.T) {
			fake := newFake(t)
			limit := fmt.Sprint(100 << 10)
			if err := fake.CreateTopic(testTopic, 1, map[string]string{"max.message.bytes": limit}); err != nil {
				t.Fatal(err)
			}
			h := &history{}
			h.commit(order("e1", "a"), tt.event, order("e2", "a"))
			l := &letters{}
			p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
			if err := h.publish(testContext(t), t, p, l); err != nil {
				t.Fatal(err)
			}
			h.check(t, fake.ListenAddrs(), 1, fmt.Sprint(tt.event.id))
			tx := h.transactions[0]
			want := decoder.Position{CommitLSN: tx.commit, Index: 1, CommitTime: tx.at.UnixMicro()}
			if got := l.reasons(); len(got) != 1 || got[want] != tt.reason {
				t.Errorf("dead letters: got %v, want %s at %s", got, tt.reason, want)
			}
		})
	}
}

func TestHaltStopsBeforeAnythingBehindThePoison(t *testing.T) {
	fake := newFake(t)
	if err := fake.CreateTopic(testTopic, 1, map[string]string{"max.message.bytes": "100000"}); err != nil {
		t.Fatal(err)
	}
	h := &history{}
	h.commit(order("e1", "a"))
	large := order("bad", "a")
	large.payload = strings.Repeat("x", 200<<10)
	h.commit(large, order("e2", "a"))
	cfg := testConfig(fake.ListenAddrs())
	cfg.OnPoison = PolicyHalt
	p := newTestPublisher(t, cfg)
	err := h.publish(testContext(t), t, p, &letters{})
	if !errors.Is(err, ErrHalted) || !strings.Contains(err.Error(), `"bad"`) || !strings.Contains(err.Error(), string(ReasonTooLarge)) {
		t.Errorf("got error %v, want one that names the event and the reason", err)
	}
	records := readAll(t, fake.ListenAddrs(), testTopic, 1)[0]
	if len(records) != 1 || string(records[0].Key) != "e1" {
		t.Errorf("got %d records, want e1 alone", len(records))
	}
	if got, want := h.slot(), h.transactions[0].end; got > want {
		t.Errorf("slot: got confirmed to %s, want at most %s", got, want)
	}
}

// A batch as a whole may be too large for a topic whose records are not.
func TestBatchTooLargeIsSplit(t *testing.T) {
	fake := newFake(t)
	if err := fake.CreateTopic(testTopic, 1, map[string]string{"max.message.bytes": "4000"}); err != nil {
		t.Fatal(err)
	}
	h := manyOrders(1, 500)
	l := &letters{}
	if err := h.publish(testContext(t), t, newTestPublisher(t, testConfig(fake.ListenAddrs())), l); err != nil {
		t.Fatal(err)
	}
	h.check(t, fake.ListenAddrs(), 1)
	if got := l.reasons(); len(got) > 0 {
		t.Errorf("got dead letters %v, want none", got)
	}
}

// A topic that refuses everything has been reconfigured; its events are not at
// fault, and the outbox is not emptied into the dead letters.
func TestTopicThatRefusesEverythingStandsStill(t *testing.T) {
	fake := newFake(t, kfake.SeedTopics(1, testTopic))
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1})
	h := manyOrders(1, 60)
	l := &letters{}
	ctx := testContext(t)
	p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
	done := make(chan error, 1)
	go func() { done <- h.publish(ctx, t, p, l) }()
	waitFor(t, func() bool { return len(l.reasons()) >= maxRefusals })
	if err := fault.Wait(ctx, fault.Hits()+2); err != nil {
		t.Error(err)
	}
	fault.Remove()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := len(l.reasons()); got != maxRefusals {
		t.Errorf("got %d dead letters, want %d", got, maxRefusals)
	}
	var refused []string
	for _, e := range h.transactions[0].events[:maxRefusals] {
		refused = append(refused, fmt.Sprint(e.id))
	}
	h.check(t, fake.ListenAddrs(), 1, refused...)
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
	r, err := newRouter(p.cfg, "7000\x00test\x00pub")
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

func TestTopicIsMadeWhereTheBrokersMakeTopics(t *testing.T) {
	fake := newFake(t, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(2))
	h := manyOrders(5, 2)
	if err := h.publish(testContext(t), t, newTestPublisher(t, testConfig(fake.ListenAddrs())), &letters{}); err != nil {
		t.Fatal(err)
	}
	h.check(t, fake.ListenAddrs(), 2)
}

// A topic that gets more partitions switches over between two events of an
// aggregate, and both arrive.
func TestMorePartitionsWhileStreaming(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.SeedTopics(1, testTopic))
	h := manyOrders(50, 2)
	ctx := testContext(t)
	p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
	if err := h.publish(ctx, t, p, &letters{}); err != nil {
		t.Fatal(err)
	}
	if err := addPartitions(ctx, fake.ListenAddrs(), testTopic, 3); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		h.commit(order(fmt.Sprintf("later-%d", i), fmt.Sprintf("aggregate-%d", i%17)))
	}
	if err := h.publish(ctx, t, p, &letters{}); err != nil {
		t.Fatal(err)
	}
	used := 0
	total := 0
	for _, records := range readAll(t, fake.ListenAddrs(), testTopic, 200) {
		used++
		total += len(records)
	}
	if used != 3 || total != 200 {
		t.Errorf("got %d records in %d partitions, want 200 in 3", total, used)
	}
}

func addPartitions(ctx context.Context, brokers []string, topic string, n int32) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewCreatePartitionsRequest()
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, n
	request.Topics = append(request.Topics, t)
	_, err = request.RequestWith(ctx, client)
	return err
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

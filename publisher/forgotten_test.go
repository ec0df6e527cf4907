//go:build linux || darwin

package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestWhatBrokersForget covers brokers that forget within seconds what they
// otherwise remember for days: producers, and transactional ids.
func TestWhatBrokersForget(t *testing.T) {
	t.Parallel() // it mostly waits
	kafka := harness.NewKafka(t, harness.KafkaConfig{Proxied: true, Properties: map[string]string{
		"producer.id.expiration.ms":                                   "2000",
		"producer.id.expiration.check.interval.ms":                    "200",
		"transactional.id.expiration.ms":                              "2000",
		"transaction.remove.expired.transaction.cleanup.interval.ms":  "500",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
		"authorizer.class.name":                                       "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"allow.everyone.if.no.acl.found":                              "true",
	}})
	t.Run("the answer to a batch is lost", func(t *testing.T) {
		loseAnswers(t, kafka, 0).wantTwice(0)
	})
	t.Run("the answer to a batch of old records is lost", func(t *testing.T) {
		loseAnswers(t, kafka, 48*time.Hour).wantTwice(0)
	})
	t.Run("the answer to a batch is lost, and how soon brokers forget is not to be read", func(t *testing.T) {
		hideSettings(t, kafka)
		if n := loseAnswers(t, kafka, 0).twice(); n == 0 {
			t.Error("no event is there twice; the circumstance can be taken off the list")
		}
	})
	t.Run("a process comes back when its transactional id is forgotten", func(t *testing.T) {
		t.Parallel()
		p := pastOn(t, kafka.Addrs(), harness.NewTopic(t, kafka, harness.TopicConfig{}))
		awaitTransactionState(t, kafka, "outbox-cdc.7000.test."+p.topic+".0", "", 20*time.Second)
		p.goOn()
		p.wantTwice(0)
	})
	t.Run("a zombie comes back when its epoch is forgotten", func(t *testing.T) {
		t.Parallel()
		testForgottenEpoch(t, kafka)
	})
}

// TestSettingsAreAskedForUntilTheyAreKnown has brokers that cannot tell their
// settings when a session begins, and can a little later.
func TestSettingsAreAskedForUntilTheyAreKnown(t *testing.T) {
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	refusals := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.CoordinatorLoadInProgress, Count: 2})
	var asked atomic.Int64
	fake.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(testContext(t))
	entries := make(chan *decoder.Chunk) // nothing comes
	var running errgroup.Group
	running.Go(func() error {
		return newTestPublisher(t, testConfig(fake.ListenAddrs())).Run(ctx, manyOrders(1, 1).session(entries, &letters{}))
	})
	waitFor(t, func() bool { return refusals.Hits() == 2 && asked.Load() > 2 })
	cancel()
	if err := running.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTailIsCompactedAway has somebody write newer records of the keys of our
// last ones, in a topic that is compacted, until ours are gone. Nothing is
// recognised by records that are gone, so what was not confirmed comes again as
// far as it was behind what is left.
func TestTailIsCompactedAway(t *testing.T) {
	runLong(t, "which takes the brokers a while", testCompactedTail)
}

func testCompactedTail(t *testing.T) {
	kafka := harness.NewKafka(t, harness.KafkaConfig{Properties: map[string]string{"log.cleaner.backoff.ms": "200"}})
	p := pastOn(t, kafka.Addrs(), harness.NewTopic(t, kafka, harness.TopicConfig{Settings: map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100",
	}}))
	before := ids(p.records()[0])
	const removed = 10
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Addrs()...), kgo.DefaultProduceTopic(p.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	newer := []byte("somebody else's")
	harness.Eventually(t, time.Minute, func() error {
		var records []*kgo.Record
		for _, id := range before[len(before)-removed:] {
			records = append(records, &kgo.Record{Key: []byte(id), Value: newer})
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			return err
		}
		if left := p.ours(newer); len(left) > len(before)-removed {
			return fmt.Errorf("%d records are left", len(left))
		}
		return nil
	})
	p.goOn()
	if got := p.ours(newer); !slices.Equal(got, before) {
		t.Errorf("got %v, want %v", got, before)
	}
}

// ours returns the events of partition 0 without the records of somebody else.
func (p past) ours(others []byte) []string {
	p.t.Helper()
	return ids(slices.DeleteFunc(p.records()[0], func(r *kgo.Record) bool { return bytes.Equal(r.Value, others) }))
}

// awaitForgotten waits until the broker knows no producer of a partition.
func awaitForgotten(t *testing.T, kafka *harness.Kafka, topic string) {
	t.Helper()
	var set kadm.TopicsSet
	set.Add(topic, 0)
	harness.Eventually(t, 20*time.Second, func() error {
		described, err := kafka.Admin().DescribeProducers(t.Context(), set)
		if err != nil {
			return err
		}
		if n := len(described[topic].Partitions[0].ActiveProducers); n > 0 {
			return fmt.Errorf("%d producers are remembered", n)
		}
		return nil
	})
}

// hideSettings takes from everybody, for one test, the right to read how the
// broker is configured.
func hideSettings(t *testing.T, kafka *harness.Kafka) {
	t.Helper()
	const everybody = "User:ANONYMOUS"
	all := kadm.NewACLs().Clusters().Allow(everybody).AllowHosts("*").Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternLiteral)
	settings := kadm.NewACLs().Clusters().Deny(everybody).DenyHosts("*").Operations(kadm.OpDescribeConfigs).ResourcePatternType(kadm.ACLPatternLiteral)
	for _, acl := range []*kadm.ACLBuilder{all, settings} {
		if _, err := kafka.Admin().CreateACLs(t.Context(), acl); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := kafka.Admin().DeleteACLs(context.Background(), acl); err != nil {
				t.Error(err)
			}
		})
	}
	harness.Eventually(t, 20*time.Second, func() error {
		if limits := openCluster(t, kafka.Addrs()).brokerLimits(t.Context()); limits != (brokerLimits{}) {
			return fmt.Errorf("the settings can be read: %+v", limits)
		}
		return nil
	})
}

// loseAnswers loses the answers to batches until the broker has forgotten who
// sent them. Sent again as they are, they are appended again.
func loseAnswers(t *testing.T, kafka *harness.Kafka, age time.Duration) past {
	t.Helper()
	topic := harness.NewTopic(t, kafka, harness.TopicConfig{})
	p := past{history: manyOrders(40, 4), t: t, brokers: kafka.Addrs(), topic: topic, admin: kafka.Admin()}
	for i := range p.transactions {
		p.transactions[i].at = p.transactions[i].at.Add(-age)
	}
	ctx := testContext(t)
	source, entries := make(chan *decoder.Chunk), make(chan *decoder.Chunk, len(p.transactions))
	go p.stream(ctx, source)
	var running errgroup.Group
	running.Go(func() error {
		return newTestPublisher(t, p.config()).Run(ctx, p.session(entries, &letters{}))
	})
	entries <- <-source
	waitFor(t, func() bool { return p.slot() == p.transactions[0].end })
	proxy := kafka.Broker(0).Proxy()
	proxy.Swallow(harness.ToClient)
	before := p.end0()
	for chunk := range source {
		entries <- chunk
	}
	close(entries)
	waitFor(t, func() bool { return p.end0() > before })
	awaitForgotten(t, kafka, topic)
	proxy.Resume()
	proxy.Cut()
	if err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	return p
}

// end0 returns the end offset of partition 0.
func (p past) end0() int64 {
	p.t.Helper()
	ends, err := p.admin.ListEndOffsets(p.t.Context(), p.topic)
	if err != nil {
		p.t.Fatal(err)
	}
	end, _ := ends.Lookup(p.topic, 0)
	return end.Offset
}

// testForgottenEpoch shows why the slot's ownership is asked for before each
// send: a broker that has forgotten the fence takes what a predecessor had in
// hand.
func testForgottenEpoch(t *testing.T, kafka *harness.Kafka) {
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	zombie := p.acquire()
	p.mustSend(eventBatch(zombie.identity, 0, 1, 1, time.Now()))
	successor := p.acquire()
	p.mustSend(eventBatch(successor.identity, 0, 2, 2, time.Now()))
	awaitForgotten(t, kafka, p.topic)
	p.mustSend(eventBatch(zombie.identity, 1, 2, 2, time.Now()))
}

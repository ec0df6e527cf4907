//go:build linux || darwin

package integration

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaRetriesKeepOrder publishes under load while leaders move, answers
// are lost, connections break and a topic has too few replicas in sync.
//
// Behaviours: O1, K5
func TestKafkaRetriesKeepOrder(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, types: []string{"order", "payment"}, partitions: 3})
	r := o.start()
	walsender := o.walsender()
	stop := o.load(3)
	o.awaitCommitted(200)
	random := rand.New(rand.NewPCG(7, 7))
	for end := time.Now().Add(long(6*time.Second, time.Minute)); time.Now().Before(end); {
		topic, number := o.topics()[random.IntN(2)], int32(random.IntN(3))
		if err := k.MoveLeader(t.Context(), topic, number, random.IntN(3)); err != nil {
			t.Fatal(err)
		}
		proxy := k.Broker(random.IntN(3)).Proxy()
		switch random.IntN(4) {
		case 0:
			proxy.Cut()
		case 1:
			proxy.Swallow(harness.ToClient) // what is acknowledged now is not heard of
			o.awaitCommitted(20)
			proxy.Resume()
		default:
			o.awaitCommitted(20)
		}
	}
	o.dropBelowMinISR()
	stop()
	o.awaitDrained()
	if now := o.walsender(); now != walsender {
		t.Errorf("the replication session was given up: walsender %d became %d", walsender, now)
	}
	r.stop()
	o.verify()
}

// dropBelowMinISR has the brokers refuse everything for a while, with
// NOT_ENOUGH_REPLICAS: all three replicas must be in sync, and one is gone.
func (o *outbox) dropBelowMinISR() {
	o.t.Helper()
	require := func(replicas string) {
		for _, topic := range o.topics() {
			if err := o.kafka.AlterTopic(o.t.Context(), topic, map[string]string{"min.insync.replicas": replicas}); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	require("3")
	gone := o.kafka.Broker(2)
	killBroker(o.t, gone)
	harness.Eventually(o.t, patience, func() error {
		for _, topic := range o.topics() {
			for number := range o.config.partitions {
				if _, err := o.kafka.Leader(o.t.Context(), topic, int32(number)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	o.awaitCommitted(200)
	startBroker(o.t, gone)
	require("2")
}

// TestKafkaPoisonIsNotOvertaken has the brokers refuse one event for good. As
// long as it is not stored as a dead letter, nothing behind it reaches its
// partition, while the other partitions go on.
//
// Behaviours: O2, K1
func TestKafkaPoisonIsNotOvertaken(t *testing.T) {
	o := newOutbox(t, outboxConfig{partitions: 2, topicSettings: map[string]string{"max.message.bytes": "20000"}})
	r := o.start()
	lock := o.begin()
	lock.exec("LOCK TABLE outbox_dead_letters IN ACCESS EXCLUSIVE MODE")
	of := func(partition int) func(*row) {
		return func(r *row) { r.aggregateID = nameIn(partition, 2) }
	}
	ahead := o.insertOne(of(0))
	poison := o.insertOne(func(r *row) { r.aggregateID, r.payload = nameIn(0, 2), incompressible(30_000) })
	behind := o.insertOne(of(0))
	harness.Eventually(t, patience, func() error {
		const waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'outbox_dead_letters'::regclass"
		if n := value[int](o, waiting); n == 0 {
			return errors.New("no dead letter waits to be stored")
		}
		return nil
	})
	var elsewhere []int64
	for range 20 {
		elsewhere = append(elsewhere, o.insertOne(of(1)))
	}
	o.awaitEvents(patience, append(elsewhere, ahead)...)
	if o.published(behind) {
		t.Error("an event has overtaken one that is not set aside yet")
	}
	lock.rollback()
	o.awaitEvents(patience, behind)
	o.awaitDrained()
	r.stop()
	o.verifyExcept(exceptions{setAside: []string{idOf(poison)}})

	// K1: who looks at the dead letter learns the size and the limit.
	letter := value[string](o, "SELECT reason || ': ' || error FROM outbox_dead_letters")
	for _, part := range []string{"too_large", "20000", "about 30"} {
		if !strings.Contains(letter, part) {
			t.Errorf("the dead letter does not say %q: %s", part, letter)
		}
	}
}

// TestKafkaHaltsAtPoison has the brokers refuse one event for good, under
// --on-poison halt: the process ends and nothing behind the event is published.
// When the topic's limit has been raised, the next start goes on with it.
//
// Behaviours: O2, K1
func TestKafkaHaltsAtPoison(t *testing.T) {
	o := newOutbox(t, outboxConfig{partitions: 1, topicSettings: map[string]string{"max.message.bytes": "20000"}})
	r := o.launch("--on-poison", "halt")
	ahead := o.insertOne(nil)
	poison := o.insertOne(func(r *row) { r.payload = incompressible(30_000) })
	behind := o.insertOne(nil)
	r.expectExit(patience, 8, idOf(poison), `max.message.bytes of topic "`+o.topic("order")+`"`)
	if !o.published(ahead) || o.published(behind) {
		t.Errorf("published: the event in front %t, the one behind %t", o.published(ahead), o.published(behind))
	}
	again := o.launch("--on-poison", "halt")
	again.expectExit(patience, 8, idOf(poison))
	o.verifyExcept(exceptions{incomplete: "the relay has halted"})

	if err := o.kafka.AlterTopic(t.Context(), o.topic("order"), map[string]string{"max.message.bytes": "100000"}); err != nil {
		t.Fatal(err)
	}
	r = o.start("--on-poison", "halt")
	o.awaitDrained()
	r.stop()
	o.verify()
}

// TestKafkaSplitsBatches drains a backlog into a topic that takes single
// events and no batches: nothing is lost or set aside for that.
//
// Behaviours: K1
func TestKafkaSplitsBatches(t *testing.T) {
	o := newOutbox(t, outboxConfig{partitions: 2, topicSettings: map[string]string{"max.message.bytes": "4000"}})
	tx := o.begin()
	tx.bulk(400, 2000)
	tx.commit()
	r := o.start()
	o.awaitDrained()
	r.stop()
	o.verify()
}

// TestKafkaOrderIsThatOfCommits inserts A in front of B and commits B first.
// Aggregates keep to their partition, whatever their name is.
//
// Behaviours: O3, O5
func TestKafkaOrderIsThatOfCommits(t *testing.T) {
	o := newOutbox(t, outboxConfig{partitions: 12})
	r := o.start()
	one := func(r row) row { r.aggregateID = "one"; return r }
	a, b := o.begin(), o.begin()
	a.insertRow(one(o.newRow()))
	b.insertRow(one(o.newRow()))
	b.commit()
	a.commit()
	for _, name := range []string{"", " ", "Zürich", "東京", "😀", "\\x00ff", "-1", strings.Repeat("long", 500)} {
		for range 3 {
			o.insertOne(func(r *row) { r.aggregateID = name })
		}
	}
	o.insertBatch(300)
	o.awaitDrained()
	r.stop()
	o.verify()
	var order []int64
	for _, r := range o.records() {
		if name, _ := r.Header("aggregate_id"); name == "one" {
			id, _ := r.Header("event_id")
			order = append(order, numberOf(id))
		}
	}
	if want := []int64{b.inserted[0], a.inserted[0]}; !slices.Equal(order, want) {
		t.Errorf("published in the order %v, want %v: that of the commits", order, want)
	}
}

//go:build linux || darwin

package integration

import (
	"fmt"
	"math/rand/v2"
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
// Behaviours: O2
func TestKafkaPoisonIsNotOvertaken(t *testing.T) {
	o := newOutbox(t, outboxConfig{partitions: 2, topicSettings: map[string]string{"max.message.bytes": "20000"}})
	lock := o.begin()
	lock.exec("LOCK TABLE outbox_dead_letters IN ACCESS EXCLUSIVE MODE")
	r := o.launch()
	aggregate := []string{nameIn(0, 2), nameIn(1, 2)}
	of := func(partition int) func(*row) { return func(r *row) { r.aggregateID = aggregate[partition] } }
	ahead := o.insertOne(of(0))
	poison := o.insertOne(func(r *row) { r.aggregateID, r.payload = aggregate[0], incompressible(30_000) })
	behind := o.insertOne(of(0))
	var others []int64
	for range 20 {
		others = append(others, o.insertOne(of(1)))
	}
	if r.Running() { // the check of the table at start waits for the lock too
		lock.rollback()
	}
	r.awaitLog("session started", 1)
	o.awaitEvents(patience, append(others, ahead, behind)...)
	o.awaitDrained()
	r.stop()
	o.verifyExcept(exceptions{setAside: []string{idOf(poison)}})
}

// nameIn returns the name of an aggregate whose events go to a partition.
func nameIn(partition, partitions int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("in-%d", i); javaPartition(name, partitions) == partition {
			return name
		}
	}
}

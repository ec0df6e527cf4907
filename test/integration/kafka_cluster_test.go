//go:build linux || darwin

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// threeBrokers returns the three proxied brokers. A test may do to them what it
// likes; when it ends, they are put in order.
func threeBrokers(t testing.TB) *harness.Kafka {
	t.Helper()
	k := proxiedKafka(t, 3)
	t.Cleanup(func() {
		if err := k.Each(restore); err != nil {
			t.Errorf("put the brokers in order: %v", err)
		}
	})
	return k
}

// restore undoes what a test has done to a broker.
func restore(b *harness.Broker) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b.Proxy().Resume()
	if err := b.Proxy().Accept(); err != nil {
		return err
	}
	if b.Running() {
		return b.Resume()
	}
	return b.Start(ctx)
}

// startBroker and its kin end the test if they fail.
func startBroker(t testing.TB, b *harness.Broker) {
	t.Helper()
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func killBroker(t testing.TB, b *harness.Broker) {
	t.Helper()
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
}

// eachProxy does the same to all proxies of a cluster.
func eachProxy(k *harness.Kafka, do func(*harness.Proxy)) {
	for _, b := range k.Brokers() {
		do(b.Proxy())
	}
}

// leader returns the broker that leads a partition.
func (o *outbox) leader(topic string, partition int32) *harness.Broker {
	o.t.Helper()
	i, err := o.kafka.Leader(o.t.Context(), topic, partition)
	if err != nil {
		o.t.Fatal(err)
	}
	return o.kafka.Broker(i)
}

// awaitEvents waits until the topics hold the events with these numbers.
func (o *outbox) awaitEvents(timeout time.Duration, numbers ...int64) {
	o.t.Helper()
	harness.Eventually(o.t, timeout, func() error {
		found := make(map[string]bool)
		for _, r := range o.records() {
			id, _ := r.Header("event_id")
			found[id] = true
		}
		for _, n := range numbers {
			if !found[idOf(n)] {
				return fmt.Errorf("event %d is not in Kafka", n)
			}
		}
		return nil
	})
}

// published reports whether the topics hold the event with a number.
func (o *outbox) published(number int64) bool {
	o.t.Helper()
	for _, r := range o.records() {
		if id, _ := r.Header("event_id"); id == idOf(number) {
			return true
		}
	}
	return false
}

// insertOne commits one row and returns its number; change may alter it first.
func (o *outbox) insertOne(change func(*row)) int64 {
	o.t.Helper()
	r := o.newRow()
	if change != nil {
		change(&r)
	}
	o.insertRow(r)
	return r.number
}

// nameIn returns the name of an aggregate whose events go to a partition.
func nameIn(partition, partitions int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("in-%d", i); javaPartition(name, partitions) == partition {
			return name
		}
	}
}

// incompressible returns a JSON text of so many bytes that does not compress
// well.
func incompressible(bytes int) string {
	padding := make([]byte, bytes/2)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(padding) // never fails
	return fmt.Sprintf(`{"padding": "%x"}`, padding)
}

//go:build linux || darwin

package integration

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// brokerFaults happen to brokers.
func brokerFaults() []*fault {
	on := []thing{theBrokers}
	return []*fault{
		{
			name: "broker killed", weight: 2, on: on, standing: true, does: "SIGKILL", undone: "it is started",
			inject: func(x *torture, random *rand.Rand) func() { return x.killBroker(x.anyBroker(random)) },
		},
		{
			name: "broker frozen", weight: 4, on: on, does: "SIGSTOP", undone: "SIGCONT",
			inject: func(x *torture, random *rand.Rand) func() {
				b := x.anyBroker(random)
				x.must(b.Pause())
				return func() { x.must(b.Resume()) }
			},
		},
		{
			name: "broker restarted", weight: 2, on: on, standing: true, does: "it hands over and ends", undone: "it is started",
			inject: func(x *torture, random *rand.Rand) func() {
				b := x.anyBroker(random)
				x.stopBroker(b)
				return func() { x.startBroker(b) }
			},
		},
		{
			name: "brokers restarted in turn", weight: 2, on: on, standing: true, does: "each hands over, ends and is started",
			inject: func(x *torture, _ *rand.Rand) func() {
				for _, b := range x.o.kafka.Brokers() {
					harness.Eventually(x.o.t, recoveryLimit, func() error { return x.o.kafka.InSync(x.o.t.Context(), x.o.topics()...) })
					x.stopBroker(b)
					x.startBroker(b)
				}
				return nil
			},
		},
		{
			name: "controller killed", weight: 2, on: on, standing: true, does: "SIGKILL of the active controller, which is a broker too", undone: "it is started",
			inject: func(x *torture, _ *rand.Rand) func() {
				var active int
				x.insist(func() (err error) {
					active, err = x.o.kafka.Controller(x.o.t.Context())
					return err
				})
				return x.killBroker(x.o.kafka.Broker(active))
			},
		},
	}
}

// replicaFaults happen to the replicas of partitions.
func replicaFaults() []*fault {
	return []*fault{
		{
			name: "leaders moved", weight: 3, on: []thing{theBrokers, theTopics}, standing: true, does: "the leader of three partitions is another replica",
			inject: (*torture).moveLeaders,
		},
		{
			// More than there are replicas would be taken for as many.
			name: "too few in sync", weight: 2, on: []thing{theBrokers, theTopics}, does: "min.insync.replicas of all topics is 3, and a broker is killed",
			undone: "it is 2, and the broker is started",
			inject: func(x *torture, random *rand.Rand) func() {
				x.alterTopics("min.insync.replicas", 3)
				start := x.killBroker(x.anyBroker(random))
				return func() {
					x.alterTopics("min.insync.replicas", 2)
					start()
				}
			},
		},
		{
			name: "too few in sync after the append", weight: 3, on: []thing{theBrokers, theTopics},
			does: "min.insync.replicas of all topics is 3, and a broker is frozen: what is written is not replicated", undone: "SIGCONT, and it is 2",
			inject: func(x *torture, random *rand.Rand) func() {
				b := x.anyBroker(random)
				x.alterTopics("min.insync.replicas", 3)
				x.must(b.Pause())
				return func() {
					x.must(b.Resume())
					x.alterTopics("min.insync.replicas", 2)
				}
			},
		},
	}
}

// must ends the test on an error.
func (x *torture) must(err error) {
	x.o.t.Helper()
	if err != nil {
		x.o.t.Fatal(err)
	}
}

// insist asks the brokers for something until they have done it: another fault
// may have a request fail.
func (x *torture) insist(ask func() error) {
	x.o.t.Helper()
	harness.Eventually(x.o.t, recoveryLimit, ask)
}

func (x *torture) anyBroker(random *rand.Rand) *harness.Broker {
	return x.o.kafka.Broker(random.IntN(len(x.o.kafka.Brokers())))
}

func (x *torture) killBroker(b *harness.Broker) func() {
	x.o.t.Helper()
	killBroker(x.o.t, b)
	return func() { x.startBroker(b) }
}

// startBroker starts a broker as its supervisor would: again and again if it
// ends as it starts, as one does that the controller does not take in within a
// minute. On a busy machine that may happen several times.
func (x *torture) startBroker(b *harness.Broker) {
	x.o.t.Helper()
	const patience = 15 * time.Minute // with brokers, not with the relay
	harness.Eventually(x.o.t, patience, func() error {
		if err := b.Start(x.o.t.Context()); err != nil {
			return errors.New(err.Error()) // whatever it is, another try may help
		}
		return nil
	})
}

// stopBroker stops a broker in order; one that cannot hand over is killed, as
// by its supervisor.
func (x *torture) stopBroker(b *harness.Broker) {
	x.o.t.Helper()
	ctx, cancel := context.WithTimeout(x.o.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := b.Stop(ctx); err != nil {
		killBroker(x.o.t, b)
	}
}

// moveLeaders has another replica lead some partitions.
func (x *torture) moveLeaders(random *rand.Rand) func() {
	x.o.t.Helper()
	for range 3 {
		kind := tortureTypes[random.IntN(len(tortureTypes))]
		topic, number := x.o.topic(kind.name), int32(random.IntN(kind.partitions))
		now, err := x.o.kafka.Leader(x.o.t.Context(), topic, number)
		if err != nil {
			continue // it has none at the moment
		}
		x.insist(func() error {
			return x.o.kafka.MoveLeader(x.o.t.Context(), topic, number, (now+1)%len(x.o.kafka.Brokers()))
		})
	}
	return nil
}

// alterTopics sets a setting of all topics.
func (x *torture) alterTopics(name string, value int) {
	x.o.t.Helper()
	for _, topic := range x.o.topics() {
		x.insist(func() error {
			return x.o.kafka.AlterTopic(x.o.t.Context(), topic, map[string]string{name: strconv.Itoa(value)})
		})
	}
}

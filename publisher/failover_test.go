//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestAcquireWhileBrokersFail covers what brokers do to an acquisition under
// way, on a cluster of three.
func TestAcquireWhileBrokersFail(t *testing.T) {
	kafka := harness.NewKafka(t, harness.KafkaConfig{Brokers: 3, Properties: map[string]string{
		// How long brokers wait for an answer of one that is frozen, 30 s by
		// default: until then a coordinator says 51.
		"controller.socket.timeout.ms": "2000",
		"request.timeout.ms":           "3000",
	}})

	moments := []string{"before anything", "after the producer id", "after the look at the end", "after the transaction began", "after the transaction ended"}
	for step, moment := range moments {
		for _, victim := range []victim{{"coordinator", coordinatorOf}, {"leader", leaderOf}} {
			name := victim.name + " killed " + moment
			test := func(t *testing.T) { testKilledBeforeStep(t, kafka, victim, step) }
			switch name {
			case "coordinator killed after the transaction began", "leader killed after the transaction ended":
				t.Run(name, test)
			default:
				runLong(t, name, test)
			}
		}
	}
	t.Run("leader and coordinator frozen in turn", func(t *testing.T) {
		testFrozen(t, kafka)
	})
	t.Run("partition without a leader when the transaction ends", func(t *testing.T) {
		testMarkerDropped(t, kafka)
	})
	runLong(t, "too few replicas in sync", func(t *testing.T) {
		testShortOfReplicas(t, kafka)
	})
	runLong(t, "too few replicas in sync for a session", func(t *testing.T) {
		testTroubleOfReplicas(t, kafka)
	})
	t.Run("a record that was not acknowledged in time", func(t *testing.T) {
		testTimedOutRecord(t, kafka)
	})
}

// victim is a broker by what it does for a partition.
type victim struct {
	name string
	of   func(*testPartition, *harness.Kafka) *harness.Broker
}

// coordinatorOf returns the broker that keeps the partition's transactional id.
func coordinatorOf(p *testPartition, kafka *harness.Kafka) *harness.Broker {
	p.t.Helper()
	var broker *harness.Broker
	harness.Eventually(p.t, 20*time.Second, func() error {
		found := kafka.Admin().FindTxnCoordinators(p.t.Context(), p.txnID)[p.txnID]
		if found.Err != nil {
			return found.Err
		}
		broker = kafka.Broker(int(found.NodeID) - 1)
		return nil
	})
	return broker
}

// leaderOf returns the broker that leads the partition.
func leaderOf(p *testPartition, kafka *harness.Kafka) *harness.Broker {
	p.t.Helper()
	leader, err := kafka.Leader(p.t.Context(), p.topic, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return kafka.Broker(leader)
}

// testKilledBeforeStep makes one round with a broker killed before one of its
// steps, and rounds without limit if that one fails. The predecessor must be shut
// out from then on, also after the broker is back.
func testKilledBeforeStep(t *testing.T, kafka *harness.Kafka, role victim, killBefore int) {
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	first := p.acquire()
	p.mustSend(eventBatch(first.identity, 0, 1, 1, time.Now()))

	victim := role.of(p, kafka)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := newAcquiring(p.cluster, p.request())
	acquired, err := a.roundWith(ctx, func(step int) {
		if step == killBefore {
			if err := victim.Kill(); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Logf("the round with the kill ended with: %v", err)
		acquired = p.acquire()
	}
	p.wantTail(acquired, 1, 1)
	zombie := eventBatch(first.identity, 1, 2, 2, time.Now())
	p.wantRefused(zombie, sarama.ErrInvalidProducerEpoch)
	if err := victim.Start(ctx); err != nil {
		t.Fatal(err)
	}
	p.wantRefused(zombie, sarama.ErrInvalidProducerEpoch)
	p.mustSend(eventBatch(acquired.identity, 0, 2, 2, time.Now()))
	p.wantRefused(zombie, sarama.ErrInvalidProducerEpoch)
}

// testFrozen takes the partition away from a broker that accepts connections and
// answers nothing. That costs one answer that does not come, no more.
func testFrozen(t *testing.T, kafka *harness.Kafka) {
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	acquired := p.acquire()
	p.mustSend(eventBatch(acquired.identity, 0, 1, 1, time.Now()))
	for _, victimOf := range []func(*testPartition, *harness.Kafka) *harness.Broker{leaderOf, coordinatorOf} {
		victim := victimOf(p, kafka)
		each(t, []*harness.Broker{victim}, (*harness.Broker).Pause)
		begun := time.Now()
		acquired = p.acquire()
		t.Logf("acquired after %v", time.Since(begun))
		p.wantTail(acquired, 1, 1)
		each(t, []*harness.Broker{victim}, (*harness.Broker).Resume)
		harness.Eventually(t, 30*time.Second, func() error {
			_, err := p.cluster.ask(t.Context(), victim.Addr(), p.topic)
			return err
		})
	}
	p.mustSend(eventBatch(acquired.identity, 0, 2, 2, time.Now()))
}

// roundWith is exactly, with a hook before each step.
func (a *acquiring) roundWith(ctx context.Context, before func(step int)) (acquisition, error) {
	acquired := acquisition{mode: acquiredExact}
	for i, step := range a.steps() {
		before(i)
		if err := step(ctx, &acquired); err != nil {
			return acquired, err
		}
	}
	return acquired, nil
}

// testMarkerDropped ends the transaction while the partition has no leader: the
// coordinator answers well and never writes the marker.
func testMarkerDropped(t *testing.T, kafka *harness.Kafka) {
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{Replication: 1, Settings: map[string]string{"min.insync.replicas": "1"}})
	coordinator := coordinatorOf(p, kafka)
	if leaderOf(p, kafka) == coordinator { // it must not be the victim
		if err := kafka.MoveLeader(t.Context(), p.topic, 0, (coordinator.Index()+1)%3); err != nil {
			t.Fatal(err)
		}
	}
	victim := leaderOf(p, kafka)
	first := p.acquire()
	p.mustSend(eventBatch(first.identity, 0, 1, 1, time.Now()))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := newAcquiring(p.cluster, p.request())
	_, err := a.roundWith(ctx, func(step int) {
		switch step {
		case 3:
			if err := victim.Kill(); err != nil {
				t.Error(err)
			}
			awaitNoLeader(p, coordinator)
		case 4:
			if err := victim.Start(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	if !errors.Is(err, errNoMarker) {
		t.Errorf("round without a leader: got %v, want %v", err, errNoMarker)
	}
	again := p.acquire()
	p.mustSend(eventBatch(again.identity, 0, 2, 2, time.Now()))
	p.wantRefused(eventBatch(first.identity, 1, 2, 2, time.Now()), sarama.ErrInvalidProducerEpoch)
}

// awaitNoLeader waits until a broker knows that the partition has no leader.
func awaitNoLeader(p *testPartition, broker *harness.Broker) {
	p.t.Helper()
	harness.Eventually(p.t, 20*time.Second, func() error {
		topic, err := p.cluster.ask(p.t.Context(), broker.Addr(), p.topic)
		if err != nil {
			return err
		}
		if leader := topic.leader(0); leader != noLeader {
			return fmt.Errorf("broker %d leads the partition", leader)
		}
		return nil
	})
}

// testShortOfReplicas acquires a partition that takes no writes for the moment, and
// expects to be told why.
func testShortOfReplicas(t *testing.T, kafka *harness.Kafka) {
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{Settings: map[string]string{"min.insync.replicas": "3"}})
	p.acquire()
	victim := kafka.Broker((leaderOf(p, kafka).Index() + 1) % 3)
	if err := victim.Kill(); err != nil {
		t.Fatal(err)
	}
	said := make(chan *shortOfReplicasError, 100)
	request := p.request()
	request.fault = func(err error) {
		var short *shortOfReplicasError
		if errors.As(err, &short) {
			said <- short
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var acquired acquisition
	var acquiring errgroup.Group
	acquiring.Go(func() (err error) {
		acquired, err = p.cluster.acquire(ctx, request)
		return err
	})
	select {
	case short := <-said:
		if short.inSync != 2 || short.needed != 3 {
			t.Errorf("got %v, want 2 replicas of 3", short)
		}
	case <-ctx.Done():
		t.Error("nothing was said about replicas")
	}
	if err := victim.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := acquiring.Wait(); err != nil {
		t.Fatal(err)
	}
	p.mustSend(eventBatch(acquired.identity, 0, 1, 1, time.Now()))
}

// testTimedOutRecord freezes the followers, so that a record is answered with 7
// and stands above the high watermark: nobody sees it, and it appears when they
// are back. The marker comes behind it, so a look finds it.
func testTimedOutRecord(t *testing.T, kafka *harness.Kafka) {
	p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
	first := p.acquire()
	p.mustSend(eventBatch(first.identity, 0, 1, 1, time.Now()))

	leader := leaderOf(p, kafka)
	var followers []*harness.Broker
	for _, b := range kafka.Brokers() {
		if b != leader {
			followers = append(followers, b)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	each(t, followers, (*harness.Broker).Pause)
	if _, err := p.try(ctx, eventBatch(first.identity, 1, 2, 2, time.Now())); !errors.Is(err, sarama.ErrRequestTimedOut) {
		t.Errorf("without followers: got %v, want %v", err, sarama.ErrRequestTimedOut)
	}
	var second acquisition
	var acquiring errgroup.Group
	acquiring.Go(func() (err error) {
		second, err = p.tryAcquire(time.Minute)
		return err
	})
	each(t, followers, (*harness.Broker).Resume)
	if err := acquiring.Wait(); err != nil {
		t.Fatal(err)
	}
	p.wantTail(second, 2, 2)
}

func each(t testing.TB, brokers []*harness.Broker, do func(*harness.Broker) error) {
	t.Helper()
	for _, b := range brokers {
		if err := do(b); err != nil {
			t.Fatal(err)
		}
	}
}

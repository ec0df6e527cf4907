//go:build linux || darwin

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaOutageSetsNothingAside takes all brokers away under load. Nothing is
// set aside, the memory stays bounded, the replication session goes on, and
// everything arrives when the brokers are back.
//
// Behaviours: K3
func TestKafkaOutageSetsNothingAside(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, settings: map[string]string{"wal_sender_timeout": "2s"}})
	r := o.start("--max-in-flight-bytes", "4MiB")
	stop := o.load(3)
	o.awaitCommitted(300)
	o.awaitDrained()
	walsender := o.walsender()
	if err := k.Each((*harness.Broker).Kill); err != nil {
		t.Fatal(err)
	}
	tx := o.begin() // far more than what may be in flight
	tx.bulk(10_000, 1000)
	tx.commit()
	o.awaitCommitted(300)
	stop()
	before := usage(t, r)
	elapsed(t, long(6*time.Second, 5*time.Minute))
	after := usage(t, r)
	if now := o.walsender(); now != walsender {
		t.Errorf("the replication session was given up: walsender %d became %d", walsender, now)
	}
	if after.memory > 96<<20 {
		t.Errorf("the relay has %d MiB resident", after.memory>>20)
	}
	if cpu := after.cpu - before.cpu; cpu > after.at.Sub(before.at)/10 {
		t.Errorf("the relay has used %s of processor time in %s of outage", cpu, after.at.Sub(before.at))
	}
	if err := k.Each(func(b *harness.Broker) error { return b.Start(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	o.awaitConfirmed(o.walEnd(), 2*patience)
	r.stop()
	if lines := len(r.log("")); lines > 100 {
		t.Errorf("the relay has logged %d lines", lines)
	}
	o.verify()
}

// resources is what a relay has used.
type resources struct {
	at     time.Time
	memory int64 // the most it had resident, in bytes
	cpu    time.Duration
}

func usage(t testing.TB, r *relay) resources {
	t.Helper()
	memory, err := r.PeakRSS()
	cpu, err2 := r.CPU()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return resources{time.Now(), memory, cpu}
}

// elapsed lets time pass, for what must stay as it is all along.
func elapsed(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// TestKafkaLeaderDiesBeforeTheAck kills the leader of a partition that has
// taken events and has not acknowledged them. They are not confirmed until the
// next leader has them.
//
// Behaviours: K4
func TestKafkaLeaderDiesBeforeTheAck(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
	r := o.start()
	o.insert(10)
	o.awaitDrained()
	confirmed := o.confirmed()
	leader := o.leader(o.topic("order"), 0)
	// The events reach the leader, its answer does not come back.
	leader.Proxy().Stall(harness.ToClient)
	o.insert(10)
	o.awaitRecords(10 + 1 + 1) // the marker, and the first that has reached it
	tx := o.begin()            // and these do not even reach it
	tx.bulk(500, 2000)
	tx.commit()
	end := o.walEnd()
	killBroker(t, leader)
	harness.Eventually(t, patience, func() error {
		now, err := k.Leader(t.Context(), o.topic("order"), 0)
		if err == nil && now == leader.Index() {
			err = errors.New("the dead broker still leads")
		}
		return err
	})
	if now := o.confirmed(); now < confirmed {
		t.Errorf("the slot went back from %s to %s", confirmed, now)
	}
	o.awaitConfirmed(end, patience)
	leader.Proxy().Resume()
	startBroker(t, leader)
	o.insert(10)
	o.awaitDrained()
	r.stop()
	o.verify()
}

// TestKafkaRequestsHaveDeadlines has the connections to the brokers go silent,
// as behind a firewall that has forgotten them, with events on their way and
// again with none. New connections work: the events go out on those, within
// seconds, in the same replication session.
//
// Behaviours: K5, K8
func TestKafkaRequestsHaveDeadlines(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 3})
	r := o.start()
	o.insert(60)
	o.awaitDrained()
	walsender := o.walsender()

	stop := o.load(2) // events are on their way
	o.awaitCommitted(50)
	eachProxy(k, func(p *harness.Proxy) { p.SwallowOpen(harness.BothWays) })
	o.awaitCommitted(50)
	stop()
	o.awaitConfirmed(o.walEnd(), 20*time.Second)

	eachProxy(k, func(p *harness.Proxy) { p.SwallowOpen(harness.BothWays) })
	begun := time.Now()
	o.insert(3) // none was
	o.awaitConfirmed(o.walEnd(), 20*time.Second)
	// The deadline of a request is 5 s.
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("the next events took %s", took)
	}

	if now := o.walsender(); now != walsender {
		t.Errorf("the replication session was given up: walsender %d became %d", walsender, now)
	}
	r.stop()
	o.verify()
}

// TestKafkaClosesIdleConnections lets the brokers close the connections on
// which nothing was said for a while. The next event does not notice.
//
// Behaviours: K8
func TestKafkaClosesIdleConnections(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
	r := o.start()
	consumer := o.follow()
	consumer.trickle(5)
	leader := o.leader(o.topic("order"), 0).Proxy()
	for range many(1, 5) {
		harness.Eventually(t, 10*idleTimeout, func() error {
			if open, ended := leader.Connections(), leader.Ended(); ended < open {
				return fmt.Errorf("the broker has closed %d of %d connections", ended, open)
			}
			return nil
		})
		latency := consumer.trickle(1)[0]
		t.Logf("the first event after the pause took %s", latency)
		if latency > 2*time.Second {
			t.Errorf("the first event after the pause took %s", latency)
		}
	}
	o.awaitDrained()
	r.stop()
	for _, line := range r.log("") {
		if line.text("level") == "ERROR" {
			t.Errorf("an idle connection that is closed is nothing to worry about: %v", line)
		}
	}
	o.verify()
}

// TestKafkaMoves gives all brokers other addresses while the relay runs. It
// finds them by the one address that it was given. Another cluster behind that
// address is refused.
//
// Behaviours: K12
func TestKafkaMoves(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 3})
	name := harness.NewProxy(t, k.Broker(0).DirectAddr()) // as a name that is resolved anew
	r := o.start("--brokers", name.Addr())
	o.insert(30)
	o.awaitDrained()
	if err := k.Each((*harness.Broker).Kill); err != nil {
		t.Fatal(err)
	}
	foreign := harness.SharedKafka(t, 1)
	if err := foreign.CreateTopic(t.Context(), o.topic("order"), harness.TopicConfig{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	name.SetTarget(foreign.Broker(0).DirectAddr())
	name.Cut()
	o.insert(30)
	harness.Eventually(t, patience, func() error {
		if !strings.Contains(r.Stderr(), "belongs to cluster") {
			return errors.New("the log does not say that another cluster answers")
		}
		return nil
	})
	if held, err := foreign.ReadAll(t.Context(), o.topic("order")); err != nil || len(held) > 0 {
		t.Errorf("the foreign cluster has %d records (%v)", len(held), err)
	}

	for _, b := range k.Brokers() {
		if err := b.MoveProxy(); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Each(func(b *harness.Broker) error { return b.Start(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	name.SetTarget(k.Broker(1).DirectAddr())
	name.Cut()
	o.awaitConfirmed(o.walEnd(), 30*time.Second)
	r.stop()
	o.verify()
}

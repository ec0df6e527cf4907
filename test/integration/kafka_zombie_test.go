//go:build linux || darwin

package integration

import (
	"errors"
	"fmt"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaZombieIsShutOut freezes a relay whose batches are on their way, lets
// another one take over and publish the same events, and then lets the batches
// arrive and the relay wake up. The brokers refuse the late batches, the relay
// finds that the slot is not its own any more and waits, and takes over again
// in the end.
//
// Behaviours: S3
func TestKafkaZombieIsShutOut(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 3, settings: map[string]string{"wal_sender_timeout": "2s"}})
	zombie := o.start()
	o.insert(60)
	o.awaitDrained()
	eachProxy(k, func(p *harness.Proxy) { p.StallOpen(harness.ToServer) })
	o.insert(60)
	awaitUnderWay(t, k)
	zombie.pause()
	harness.Eventually(t, patience, func() error {
		if pid := o.walsender(); pid != 0 {
			return fmt.Errorf("walsender %d has not given up the frozen relay", pid)
		}
		return nil
	})

	successor := o.start()
	o.awaitDrained()
	eachProxy(k, (*harness.Proxy).Resume)
	zombie.resume()
	o.insert(60)
	zombie.awaitLog("session ended", 1)
	o.awaitDrained()

	successor.stop()
	zombie.awaitLog("session started", 2)
	o.insert(60)
	o.awaitDrained()
	zombie.stop()
	o.verify()
}

// awaitUnderWay waits until the proxies hold back requests.
func awaitUnderWay(t testing.TB, k *harness.Kafka) {
	t.Helper()
	harness.Eventually(t, patience, func() error {
		holding := 0
		for _, b := range k.Brokers() {
			holding += b.Proxy().Holding()
		}
		if holding == 0 {
			return errors.New("no request is on its way")
		}
		return nil
	})
}

// TestKafkaZombiesAreShutOutEachTime does so under load, again and again: each
// relay is frozen with requests on their way, its walsender is ended, so that
// the next one takes over at once, and then the requests arrive and it wakes up.
//
// Behaviours: S3
func TestKafkaZombiesAreShutOutEachTime(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 3})
	r := o.start()
	endLoad := o.load(2)
	for range many(3, 100) {
		o.awaitCommitted(50)
		eachProxy(k, func(p *harness.Proxy) { p.StallOpen(harness.ToServer) })
		awaitUnderWay(t, k)
		r.pause()
		o.exec("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1", o.slot)
		successor := o.start()
		o.awaitDrained()
		eachProxy(k, (*harness.Proxy).Resume)
		r.resume()
		r.awaitLog("session ended", 1)
		o.awaitDrained()
		r.kill()
		r = successor
	}
	endLoad()
	o.awaitDrained()
	r.stop()
	o.verify()
}

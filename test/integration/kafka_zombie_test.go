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

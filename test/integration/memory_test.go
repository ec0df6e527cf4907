//go:build linux || darwin

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// maxRSS is what the relay may have resident at its defaults.
const maxRSS = 96 << 20

// expectSmall checks how much memory the relay has had at most.
func (r *relay) expectSmall() {
	r.o.t.Helper()
	peak, err := r.PeakRSS()
	if err != nil {
		r.o.t.Fatal(err)
	}
	if peak > maxRSS {
		r.o.t.Errorf("the relay has had %d MiB resident, want at most %d", peak>>20, maxRSS>>20)
	}
	r.o.t.Logf("the relay has had %d MiB resident", peak>>20)
}

// TestMemoryOfAHugeTransaction publishes one transaction that is many times as
// large as the memory the relay may use, to brokers so slow that it takes
// several times wal_sender_timeout.
//
// Behaviours: S12, S13
func TestMemoryOfAHugeTransaction(t *testing.T) {
	k := proxiedKafka(t, 1)
	timeout := long(2*time.Second, 5*time.Second)
	o := newOutbox(t, outboxConfig{kafka: k, settings: map[string]string{"wal_sender_timeout": timeout.String()}})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	walsender := o.walsender()
	rows := many(120_000, 1_000_000)
	const rowBytes, bytesPerSecond = 1000, 24 << 20
	k.Broker(0).Proxy().Throttle(harness.ToServer, bytesPerSecond)
	tx := o.begin()
	tx.bulk(rows, rowBytes)
	tx.commit()
	begun := time.Now()
	o.awaitConfirmed(o.walEnd(), long(2*time.Minute, 10*time.Minute))
	if took := time.Since(begun); took < 2*timeout {
		t.Errorf("it took %s, which is too short to prove anything about a timeout of %s", took, timeout)
	}
	if now := o.walsender(); now != walsender {
		t.Errorf("the session has not lasted: walsender %d instead of %d", now, walsender)
	}
	r.expectSmall()
	o.verify()
}

// TestMemoryOfABacklog starts the relay on a backlog of many transactions.
//
// Behaviours: S14
func TestMemoryOfABacklog(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	const rowsPerTransaction, rowBytes = 1000, 2000
	for range many(60, 400) {
		tx := o.begin()
		tx.bulk(rowsPerTransaction, rowBytes)
		tx.commit()
	}
	r := o.start()
	o.awaitConfirmed(o.walEnd(), long(time.Minute, 10*time.Minute))
	r.expectSmall()
	o.verify()
}

// TestMemoryWhileTheBrokersAreAway has a backlog wait in front of brokers that
// are not there: it must wait in the write-ahead log, not in memory.
//
// Behaviours: S14, K3
func TestMemoryWhileTheBrokersAreAway(t *testing.T) {
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	k.Broker(0).Proxy().Refuse()
	endLoad := o.load(2)
	for range many(60, 400) {
		tx := o.begin()
		tx.bulk(1000, 2000)
		tx.commit()
	}
	bound := o.confirmed()
	o.hold(long(3*time.Second, 5*time.Minute), func() error {
		r.mustRun()
		if now := o.confirmed(); now > bound && o.held() == 0 {
			return fmt.Errorf("the slot went from %s to %s without brokers", bound, now)
		}
		return nil
	})
	endLoad()
	if err := k.Broker(0).Proxy().Accept(); err != nil {
		t.Fatal(err)
	}
	o.awaitConfirmed(o.walEnd(), long(time.Minute, 10*time.Minute))
	r.expectSmall()
	o.verify()
}

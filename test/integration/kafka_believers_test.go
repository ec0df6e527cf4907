//go:build linux || darwin

package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaTwoRelaysBelieveThatTheyOwnTheSlot has two relays publish the same
// events at the same time, again and again, each of which is told whenever it
// asks that the slot is its own: the walsender of one is ended, which it does not
// learn, with much on its way that it has not confirmed, and the other one takes
// over and gets the same. Each is frozen now and then, and loses answers of the
// brokers. They shut each other out of the partitions, and what they write
// together is there once, in order.
//
// Behaviours: S3
func TestKafkaTwoRelaysBelieveThatTheyOwnTheSlot(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 3})
	random := rand.New(rand.NewPCG(1, 0))
	endLoad := o.load(1)
	owner := o.believe()
	owner.awaitLog("session started", 1)
	other := o.believe()
	published := 0
	rounds := many(3, 40)
	for range rounds {
		published += owner.dispossess(other, random)
		owner, other = other, owner
	}
	endLoad()
	o.awaitDrained()
	lies := owner.liar.lies.Load() + other.liar.lies.Load()
	t.Logf("%d rounds, %d lies, %d events published without the slot, partitions acquired %v and %v times",
		rounds, lies, published, owner.count("partitions_acquired_total{mode=\"exact\"}"), other.count("partitions_acquired_total{mode=\"exact\"}"))
	if lies == 0 || published == 0 {
		t.Errorf("in %d rounds %d lies were told, and %d events were published without the slot", rounds, lies, published)
	}
	owner.stop()
	o.verify()
}

// believer is a relay that may be lied to.
type believer struct {
	*relay
	liar *liar
}

// believe starts a believer.
func (o *outbox) believe() *believer {
	o.t.Helper()
	l := startLiar(o.t, o.pg.Addr(), time.Millisecond)
	return &believer{o.launch(append(serving, "--dsn", o.pg.DSNVia(l.addr, superuser, o.database))...), l}
}

// count is a counter of the relay.
func (b *believer) count(name string) int {
	b.o.t.Helper()
	value, found := b.metric("outbox_cdc_" + name)
	if !found {
		b.o.t.Fatalf("there is no metric %s", name)
	}
	return int(value)
}

// dispossess gives the slot to another relay, and both the same events, until the
// other one has published all. It returns how many the first one has published.
func (b *believer) dispossess(other *believer, random *rand.Rand) int {
	o := b.o
	o.t.Helper()
	const backlog = 500 // messages
	started, ended := len(other.log("session started")), len(b.log("session ended"))
	b.liar.hold()
	other.liar.hold()
	b.liar.hide()
	b.awaitBacklog(backlog)
	before := b.count("events_published_total")
	o.exec("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1", o.slot)
	other.awaitLog("session started", started+1)
	other.awaitBacklog(backlog)
	b.liar.release()
	other.liar.release()
	for waiting := b.liar.waiting(); waiting > 0; waiting = b.liar.waiting() {
		disturb([]*believer{b, other}[random.IntN(2)], random)
	}
	o.awaitDrained()
	published := b.count("events_published_total") - before
	b.liar.reveal()
	b.awaitLog("session ended", ended+1)
	return published
}

// disturb freezes a relay for a moment, or has it lose what brokers answer.
func disturb(b *believer, random *rand.Rand) {
	b.o.t.Helper()
	length := time.Duration(random.Int64N(int64(150 * time.Millisecond)))
	if random.IntN(4) == 0 {
		eachProxy(b.o.kafka, func(p *harness.Proxy) { p.StallOpen(harness.ToClient) })
		elapsed(b.o.t, length)
		eachProxy(b.o.kafka, (*harness.Proxy).Cut)
		eachProxy(b.o.kafka, (*harness.Proxy).Resume)
		return
	}
	b.pause()
	elapsed(b.o.t, length)
	b.resume()
}

// awaitBacklog waits until so many messages are held back from the relay.
func (b *believer) awaitBacklog(messages int) {
	b.o.t.Helper()
	harness.Eventually(b.o.t, patience, func() error {
		if waiting := b.liar.waiting(); waiting < messages {
			return fmt.Errorf("%d messages are held back, not yet %d", waiting, messages)
		}
		if !b.Running() {
			return errors.New("the relay has ended")
		}
		return nil
	})
}

//go:build linux || darwin

package integration

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaChaos does under load, at random and several at a time, what other
// tests do one by one: relays and brokers are killed, frozen and started, a
// second relay waits, connections are cut, silenced and held back, walsenders
// are ended, the database crashes.
//
// Behaviours: O1, P16, S3, K4, K5
func TestKafkaChaos(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{})
	o := newOutbox(t, outboxConfig{
		postgres: pg, kafka: threeBrokers(t), types: []string{"order", "payment"}, partitions: 3,
		settings: map[string]string{"wal_sender_timeout": "2s"},
	})
	seed := uint64(1)
	if harness.Long() {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	c := &chaos{o: o, random: rand.New(rand.NewPCG(seed, 0))}
	c.addRelay()
	stop := o.load(3)
	for end := time.Now().Add(long(5*time.Second, 3*time.Minute)); time.Now().Before(end); {
		c.act()
		o.awaitCommitted(1 + c.random.IntN(100))
	}
	c.settle()
	stop()
	o.awaitConfirmed(o.walEnd(), 4*patience)
	o.verify()
}

// chaos is what a chaos test has done so far.
type chaos struct {
	o      *outbox
	random *rand.Rand
	relays []*relay
	paused *relay          // one of them, or nil
	down   *harness.Broker // killed; nil if none is
}

// act does one thing at random.
func (c *chaos) act() {
	c.o.t.Helper()
	broker := c.o.kafka.Broker(c.random.IntN(3))
	actions := []func(){
		c.killRelay, c.addRelay, c.pauseRelay, c.resumeRelay, c.stopRelay,
		func() { c.killBroker(broker) }, c.startBroker,
		broker.Proxy().Cut, broker.Proxy().Resume,
		func() { broker.Proxy().SwallowOpen(harness.BothWays) },
		func() { broker.Proxy().StallOpen(harness.ToServer) },
		c.endWalsender,
		func() { c.restartPostgres(harness.Fast) }, func() { c.restartPostgres(harness.Immediate) },
	}
	actions[c.random.IntN(len(actions))]()
}

// replace puts a new relay in the place of one that is to end, or has ended.
func (c *chaos) replace(end func(*relay)) {
	i := c.random.IntN(len(c.relays))
	if c.relays[i] == c.paused {
		c.resumeRelay()
	}
	end(c.relays[i])
	c.relays[i] = c.launch()
}

// launch starts a relay that does not mind being frozen as it starts.
func (c *chaos) launch() *relay { return c.o.launch("--start-timeout", "10m") }

func (c *chaos) killRelay() { c.replace((*relay).kill) }

// stopRelay asks a relay to stop, and does not wait until it has.
func (c *chaos) stopRelay() {
	c.replace(func(r *relay) {
		if r.Running() {
			_ = r.Signal(syscall.SIGTERM) // it may have ended just now
		}
	})
}

func (c *chaos) addRelay() {
	if len(c.relays) < 2 {
		c.relays = append(c.relays, c.launch())
	}
}

func (c *chaos) pauseRelay() {
	if r := c.relays[c.random.IntN(len(c.relays))]; c.paused == nil && r.Running() {
		c.paused = r
		r.pause()
	}
}

func (c *chaos) resumeRelay() {
	if c.paused != nil {
		c.paused.resume()
		c.paused = nil
	}
}

func (c *chaos) killBroker(b *harness.Broker) {
	if c.down == nil {
		c.down = b
		killBroker(c.o.t, b)
	}
}

func (c *chaos) startBroker() {
	if c.down != nil {
		startBroker(c.o.t, c.down)
		c.down = nil
	}
}

func (c *chaos) endWalsender() {
	if pid := c.o.walsender(); pid != 0 {
		c.o.exec("SELECT pg_terminate_backend($1)", pid)
	}
}

func (c *chaos) restartPostgres(mode harness.StopMode) {
	if err := c.o.pg.Restart(c.o.t.Context(), mode); err != nil {
		c.o.t.Fatal(err)
	}
}

// settle puts everything in order and leaves one relay.
func (c *chaos) settle() {
	c.resumeRelay()
	c.startBroker()
	eachProxy(c.o.kafka, (*harness.Proxy).Resume)
	for _, r := range c.relays {
		r.mustRun() // nothing of this is a reason to give up
		r.kill()
	}
	c.o.start()
}

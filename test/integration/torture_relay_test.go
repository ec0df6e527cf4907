//go:build linux || darwin

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
)

// relayFaults happen to the relay itself.
func relayFaults() []*fault {
	const routing = "the routing was changed"
	on := []thing{theRelay}
	return []*fault{
		{
			name: "relay killed", weight: 5, on: on, does: "SIGKILL", undone: "a new one is started",
			inject: func(x *torture, _ *rand.Rand) func() { x.kill(x.relays[0]); return x.launch },
		},
		{
			name: "relay stopped", weight: 3, on: on, does: "SIGTERM, with events on their way", undone: "a new one is started, whether or not the old one has ended",
			inject: (*torture).stopRelay,
		},
		{
			name: "relay frozen", weight: 4, on: on, does: "SIGSTOP", undone: "SIGCONT",
			inject: func(x *torture, _ *rand.Rand) func() {
				r := x.relays[0]
				r.pause()
				return r.resume
			},
		},
		{
			name: "relay frozen and succeeded", weight: 4, on: on, standing: true,
			does: "SIGSTOP, and a second relay waits for the slot", undone: "SIGCONT; the one that comes first is killed in the end",
			inject: func(x *torture, _ *rand.Rand) func() {
				r := x.relays[0]
				x.launch()
				r.pause()
				return r.resume
			},
		},
		{
			name: "two relays", weight: 4, on: on, does: "a second relay waits for the slot", undone: "the first one is killed",
			inject: func(x *torture, _ *rand.Rand) func() {
				r := x.relays[0]
				x.launch()
				return func() { x.kill(r) }
			},
		},
		rerouted("another key", routing, false, "--key", "aggregate_id"),
		rerouted("another partition choice", routing, true, "--partition-by", "key"),
		{
			name: "another topic template", weight: 2, on: []thing{theRelay, theTopics}, doubles: routing, does: "killed, and started with --topic of one topic for all",
			undone: "killed, and started as before",
			inject: func(x *torture, _ *rand.Rand) func() { return x.reroute("--topic", x.o.topicPrefix+"."+commonTopic) },
		},
	}
}

// rerouted is a fault that changes the routing with events on their way.
func rerouted(name, circumstance string, scatters bool, flags ...string) *fault {
	return &fault{
		name: name, weight: 2, on: []thing{theRelay, theTopics}, doubles: circumstance, scatters: scatters,
		does: fmt.Sprintf("killed, and started with %v", flags), undone: "killed, and started as before",
		inject: func(x *torture, _ *rand.Rand) func() { return x.reroute(flags...) },
	}
}

func (x *torture) reroute(flags ...string) func() {
	x.kill(x.relays[0])
	x.flags = flags
	x.launch()
	return func() {
		x.kill(x.relays[0])
		x.flags = nil
		x.launch()
	}
}

// stopRelay asks the relay to stop. With brokers that do not answer it takes a
// while, in which the next one waits.
func (x *torture) stopRelay(*rand.Rand) func() {
	r := x.relays[0]
	if err := r.Signal(syscall.SIGTERM); err != nil {
		x.o.t.Fatal(err)
	}
	x.forget(r)
	return func() {
		x.launch()
		x.later(func() error {
			if r.Running() {
				return fmt.Errorf("the relay with pid %d has not stopped", r.PID())
			}
			return nil
		})
	}
}

// kill ends a relay with SIGKILL.
func (x *torture) kill(r *relay) {
	x.o.t.Helper()
	r.mustRun() // nothing of this is a reason to give up
	r.kill()
	x.forget(r)
}

// forget takes a relay out of those that run. Of a few that have ended, the
// output is kept.
func (x *torture) forget(r *relay) {
	x.o.t.Helper()
	x.relays = slices.DeleteFunc(x.relays, func(other *relay) bool { return other == r })
	x.ended = append(x.ended, r)
	const kept = 6
	for len(x.ended) > kept && !x.ended[0].Running() {
		if err := x.ended[0].Close(); err != nil {
			x.o.t.Error(err)
		}
		x.ended = x.ended[1:]
	}
}

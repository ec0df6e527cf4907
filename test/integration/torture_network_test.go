//go:build linux || darwin

package integration

import (
	"math/rand/v2"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// networkFaults happen to the connections of the relay.
func networkFaults() []*fault {
	const throttled = 128 << 10
	kinds := []struct {
		name, does, undone string
		weight             int
		standing           bool
		do                 func(*harness.Proxy)
		undo               func(*harness.Proxy)
	}{
		{name: "cut", does: "they are reset", weight: 4, standing: true, do: (*harness.Proxy).Cut},
		{
			name: "refused", does: "they are reset, and new ones are refused", undone: "new ones are accepted", weight: 2,
			do:   (*harness.Proxy).Refuse,
			undo: func(p *harness.Proxy) { _ = p.Accept() }, // the port is the proxy's own
		},
		{
			name: "stalled", does: "nothing goes through, either way", undone: "all of it does", weight: 4,
			do: func(p *harness.Proxy) { p.Stall(harness.BothWays) }, undo: (*harness.Proxy).Resume,
		},
		{
			name: "swallowed", does: "what is sent on those that are open is lost without a sign", undone: "those that have lost something are reset", weight: 2, standing: true,
			do: func(p *harness.Proxy) { p.SwallowOpen(harness.BothWays) }, undo: (*harness.Proxy).Resume,
		},
		{
			name: "throttled", does: "128 KiB/s", undone: "as fast as it can be", weight: 2,
			do: func(p *harness.Proxy) { p.Throttle(harness.BothWays, throttled) }, undo: (*harness.Proxy).Resume,
		},
		{
			name: "slow", does: "each way takes 50 ms", undone: "at once", weight: 2, standing: true,
			do: func(p *harness.Proxy) { p.Delay(harness.BothWays, 50*time.Millisecond) }, undo: (*harness.Proxy).Resume,
		},
		{
			name: "without answers", does: "requests arrive, answers do not", undone: "the connections are reset, so that the answers are lost", weight: 4,
			do: func(p *harness.Proxy) { p.Stall(harness.ToClient) },
			undo: func(p *harness.Proxy) {
				p.Cut()
				p.Resume()
			},
		},
	}
	var faults []*fault
	for _, k := range kinds {
		faults = append(faults,
			&fault{
				name: "connections to brokers " + k.name, weight: k.weight, on: []thing{theBrokerNetwork}, standing: k.standing, does: k.does, undone: k.undone,
				inject: func(x *torture, random *rand.Rand) func() {
					return onProxies(x.brokerProxies(random), k.do, k.undo)
				},
			},
			&fault{
				name: "connections to PostgreSQL " + k.name, weight: k.weight, on: []thing{thePostgresNetwork}, standing: k.standing, does: k.does, undone: k.undone,
				inject: func(x *torture, _ *rand.Rand) func() {
					return onProxies([]*harness.Proxy{x.o.proxy}, k.do, k.undo)
				},
			})
	}
	return faults
}

// brokerProxies are those of all brokers or of one.
func (x *torture) brokerProxies(random *rand.Rand) []*harness.Proxy {
	if random.IntN(3) > 0 {
		return []*harness.Proxy{x.anyBroker(random).Proxy()}
	}
	var all []*harness.Proxy
	for _, b := range x.o.kafka.Brokers() {
		all = append(all, b.Proxy())
	}
	return all
}

// onProxies does something and returns what undoes it.
func onProxies(proxies []*harness.Proxy, do, undo func(*harness.Proxy)) func() {
	for _, p := range proxies {
		do(p)
	}
	if undo == nil {
		return nil
	}
	return func() {
		for _, p := range proxies {
			undo(p)
		}
	}
}

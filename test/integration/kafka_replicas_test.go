//go:build linux || darwin

package integration

import (
	"testing"
	"time"
)

// TestKafkaTooFewReplicas takes one of three brokers from a topic that needs them
// all in sync. Within ten seconds readiness is red and names the topic and both
// numbers; other topics go on, and it goes on itself when fewer are enough.
//
// Behaviours: K9
func TestKafkaTooFewReplicas(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, types: []string{"order", "other"}, partitions: 1})
	needs := func(replicas string) {
		if err := k.AlterTopic(t.Context(), o.topic("order"), map[string]string{"min.insync.replicas": replicas}); err != nil {
			t.Fatal(err)
		}
	}
	needs("3")
	r := o.start(serving...)
	o.insertRow(o.rowOf("order"))
	o.insertRow(o.rowOf("other"))
	o.awaitDrained()
	victim := k.Broker((o.leader(o.topic("order"), 0).Index() + 1) % 3)
	killBroker(t, victim)
	o.insertRow(o.rowOf("order"))
	r.awaitUnready(10*time.Second+sessionTimeout, o.topic("order")+"/0 has 2 replicas in sync and min.insync.replicas is 3")
	other := o.rowOf("other")
	o.insertRow(other)
	o.awaitEvents(patience, other.number)
	needs("2")
	o.awaitDrained()
	r.awaitReady("active")
	r.stop()
	o.verify()
}

// sessionTimeout is how long the harness's brokers miss one that was killed before
// they act.
const sessionTimeout = 3 * time.Second

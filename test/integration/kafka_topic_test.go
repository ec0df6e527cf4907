//go:build linux || darwin

package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaTopicIsMissing publishes to a topic that does not exist, where
// topics are not created by themselves: its events wait and hold the slot, the
// log and readiness name the topic and the remedy, other topics go on. When the
// topic is made, its events go out.
//
// Behaviours: P8, K2
func TestKafkaTopicIsMissing(t *testing.T) {
	o := newOutbox(t, outboxConfig{types: []string{"order", "late"}})
	if err := o.kafka.DeleteTopic(t.Context(), o.topic("late")); err != nil {
		t.Fatal(err)
	}
	r := o.start(serving...)
	o.insertRow(o.rowOf("order"))
	o.awaitDrained()
	confirmed := o.walEnd()
	o.insertRow(o.rowOf("late"))
	var others []int64
	for range 20 {
		row := o.rowOf("order")
		o.insertRow(row)
		others = append(others, row.number)
	}
	r.awaitUnready(patience, o.topic("late"), `create topic "`+o.topic("late")+`"`)
	r.awaitLog("topic stands still", 1)
	line := r.log("topic stands still")[0]
	if line.text("level") != "ERROR" || line.text("topic") != o.topic("late") || !strings.Contains(line.text("remedy"), `create topic "`+o.topic("late")+`", or run with --create-topics`) {
		t.Errorf("the log says %v", line)
	}
	harness.Eventually(t, patience, func() error {
		records, err := o.kafka.ReadAll(t.Context(), o.topic("order"))
		if err == nil && len(records) < 1+len(others) {
			err = errors.New("the other topic does not go on")
		}
		return err
	})
	if now := o.confirmed(); now > confirmed {
		t.Errorf("the slot is confirmed up to %s, and an event that waits was committed behind %s", now, confirmed)
	}
	if err := o.kafka.CreateTopic(t.Context(), o.topic("late"), harness.TopicConfig{Partitions: o.config.partitions}); err != nil {
		t.Fatal(err)
	}
	o.awaitDrained()
	r.awaitReady("active")
	r.stop()
	o.verify()
}

// TestKafkaTopicIsCreated has the relay create its topic at the start, where topics
// are not created by themselves, with as many partitions as it was told.
//
// Behaviours: K2
func TestKafkaTopicIsCreated(t *testing.T) {
	o := newOutbox(t, outboxConfig{later: []string{"new"}, partitions: 3})
	r := o.start("--topic", o.topic("new"), "--create-topics", "--create-topics-partitions", "3")
	o.createTopic("new") // finds it with three partitions
	for range 10 {
		o.insertRow(o.rowOf("new"))
	}
	o.awaitDrained()
	r.stop()
	o.verify()
}

// TestKafkaPartitionsAreAdded raises the number of partitions under load. The
// topic switches over without a restart, and without anything lost or doubled.
//
// Behaviours: O3
func TestKafkaPartitionsAreAdded(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 2})
	r := o.start()
	stop := o.load(2)
	o.awaitCommitted(200)
	if err := k.AddPartitions(t.Context(), o.topic("order"), 5); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, func() error {
		eachProxy(k, (*harness.Proxy).Cut) // leaders are looked up, which shows it
		if len(r.log("topic has more partitions; it switches over when what is under way has arrived")) == 0 {
			return errors.New("the relay has not noticed that there are more partitions")
		}
		return nil
	})
	harness.Eventually(t, patience, func() error {
		ends, err := endOffsets(t.Context(), k, o.topics())
		if err == nil && ends[partition{o.topic("order"), 4}] == 0 {
			err = errors.New("nothing is in the new partitions")
		}
		return err
	})
	stop()
	o.awaitDrained()
	r.stop()

	o.config.partitions = 5 // what comes now goes where a topic of five has it
	rest := o.begin()
	rest.insert(40)
	rest.commit()
	r = o.start()
	o.awaitDrained()
	r.stop()
	for _, record := range o.records() {
		id, _ := record.Header("event_id")
		name, _ := record.Header("aggregate_id")
		if numberOf(id) >= rest.inserted[0] && record.Partition != int32(javaPartition(name, 5)) {
			t.Errorf("%s of aggregate %q is in partition %d", id, name, record.Partition)
		}
	}
	o.verifyExcept(exceptions{rerouted: "partitions were added"})
}

// TestKafkaPartitionsAreAddedBehindACrash kills the relay under load and raises
// the number of partitions before it starts again. What the old number had in
// flight is not recognised, and nothing of it is lost.
func TestKafkaPartitionsAreAddedBehindACrash(t *testing.T) {
	o := newOutbox(t, outboxConfig{partitions: 2})
	r := o.start()
	stop := o.load(2)
	o.awaitCommitted(200)
	r.kill()
	o.awaitCommitted(50)
	stop()
	if err := o.kafka.AddPartitions(t.Context(), o.topic("order"), 5); err != nil {
		t.Fatal(err)
	}
	r = o.start()
	o.awaitDrained()
	r.stop()
	if recognised := r.log("events recognised in the partitions and not sent again"); len(recognised) > 0 {
		t.Errorf("events were skipped on the word of another number of partitions: %v", recognised)
	}
	o.verifyExcept(exceptions{duplicates: "partitions were added", rerouted: "partitions were added"})
}

// TestKafkaRoutingChanges kills the relay under load and starts it with another
// routing: what is in the topic was not put there by that, so nothing of it is
// recognised, and nothing is lost either.
func TestKafkaRoutingChanges(t *testing.T) {
	o := newOutbox(t, outboxConfig{partitions: 3})
	r := o.start()
	stop := o.load(2)
	o.awaitCommitted(300)
	r.kill()
	o.awaitCommitted(100)
	stop()
	r = o.start("--partition-by", "key")
	o.awaitDrained()
	r.stop()
	if recognised := r.log("events recognised in the partitions and not sent again"); len(recognised) > 0 {
		t.Errorf("events were skipped on the word of another routing: %v", recognised)
	}
	o.verifyExcept(exceptions{duplicates: "the routing changed", rerouted: "the routing changed"})
}

// TestKafkaTopicIsMadeAgain deletes a topic while the relay runs and makes it
// again. What was not acknowledged by the old one goes into the new one, once,
// whether or not the brokers have taken a batch before the relay has noticed.
func TestKafkaTopicIsMadeAgain(t *testing.T) {
	k := threeBrokers(t)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 2})
	r := o.start()
	o.insert(40)
	o.awaitDrained()
	o.removed = append(o.removed, o.records())
	if err := k.DeleteTopic(t.Context(), o.topic("order")); err != nil {
		t.Fatal(err)
	}
	o.insert(40)
	if err := k.CreateTopic(t.Context(), o.topic("order"), harness.TopicConfig{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	o.awaitDrained()
	o.insert(40)
	o.awaitDrained()
	r.stop()
	o.verify()
}

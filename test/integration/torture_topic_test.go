//go:build linux || darwin

package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// loweredLimit is what is left of the size of a message, defaultLimit what it
// is before and afterwards.
const loweredLimit, defaultLimit = 64 << 10, 1<<20 + 12

// topicFaults happen to topics.
func topicFaults() []*fault {
	on := []thing{theBrokers, theTopics}
	return []*fault{
		{
			name: "message limit lowered", weight: 2, on: []thing{theTopics}, does: "max.message.bytes of all topics is 64 KiB, less than some events and many batches",
			undone: "it is 1 MiB",
			// Headers and key of a record come on top of the payload.
			setAside: func(id string) bool { return payloadSize(numberOf(id)) > loweredLimit-2000 },
			inject: func(x *torture, _ *rand.Rand) func() {
				x.alterTopics("max.message.bytes", loweredLimit)
				return func() { x.alterTopics("max.message.bytes", defaultLimit) }
			},
		},
		{
			name: "partition added", weight: 2, on: on, does: "a topic has one partition more", doubles: "partitions were added", exact: true,
			topics: func(x *torture) []string { return []string{x.o.topic("grown")} },
			inject: (*torture).addPartition,
		},
		{
			name: "topic made again", weight: 2, on: on, does: "a topic is read, and deleted with batches on their way", undone: "it is made again with as many partitions",
			doubles: "a topic was deleted and made again", exact: true,
			topics: func(x *torture) []string { return []string{x.o.topic("remade")} },
			inject: (*torture).remakeTopic,
		},
	}
}

// addPartition adds a partition; the round lasts until events are in it. What
// leads the relay to ask for the partitions is that a connection is cut.
func (x *torture) addPartition(*rand.Rand) func() {
	x.o.t.Helper()
	topic, newest := x.o.topic("grown"), partition{x.o.topic("grown"), int32(x.grown)}
	x.grown++
	x.insist(func() error { return x.o.kafka.AddPartitions(x.o.t.Context(), topic, x.grown) })
	var cut time.Time
	x.later(func() error {
		if ends, err := endOffsets(x.o.t.Context(), x.o.kafka, []string{topic}); err != nil || ends[newest] > 0 {
			return err
		}
		if time.Since(cut) > 3*time.Second {
			eachProxy(x.o.kafka, (*harness.Proxy).Cut)
			cut = time.Now()
		}
		return fmt.Errorf("nothing is in partition %d of %s", newest.number, topic)
	})
	return nil
}

// remakeTopic deletes a topic. Before that, what it holds is read: what was in it
// counts as delivered. Nothing more is appended to it meanwhile, since it takes
// only what was committed in the same millisecond.
func (x *torture) remakeTopic(*rand.Rand) func() {
	x.o.t.Helper()
	ctx, topic := x.o.t.Context(), x.o.topic("remade")
	x.insist(func() error {
		return x.o.kafka.AlterTopic(ctx, topic, map[string]string{"message.timestamp.before.max.ms": "0"})
	})
	for number := range x.o.partitions(topic) {
		harness.Eventually(x.o.t, recoveryLimit, func() error { return x.refuses(topic, int32(number)) })
	}
	var records []harness.Record
	x.insist(func() (err error) {
		records, err = x.o.kafka.ReadAll(ctx, topic)
		return err
	})
	x.insist(func() error { return x.o.kafka.DeleteTopic(ctx, topic) })
	x.o.removed = append(x.o.removed, records)
	x.neighbour.removed = append(x.neighbour.removed, records)
	return func() {
		config := harness.TopicConfig{
			Partitions: x.o.partitions(topic),
			// The default, said aloud: a broker may remember what held for the
			// topic of that name before.
			Settings: map[string]string{"message.timestamp.before.max.ms": strconv.Itoa(math.MaxInt64)},
		}
		x.insist(func() error { return x.o.kafka.CreateTopic(ctx, topic, config) })
	}
}

// refuses returns nil if a partition takes nothing that is not new.
func (x *torture) refuses(topic string, number int32) error {
	ctx, cancel := context.WithTimeout(x.o.t.Context(), 5*time.Second)
	defer cancel()
	old := foreignRecord(topic, number, 20)
	old.Timestamp = time.Now().Add(-time.Minute)
	err := x.o.kafka.Produce(ctx, old)
	if errors.Is(err, kerr.InvalidTimestamp) {
		return nil
	}
	return fmt.Errorf("partition %d of %s has not refused an old record (%w)", number, topic, err)
}

// foreignRecord is a record that is none of ours.
func foreignRecord(topic string, number int32, bytes int) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: number, Key: []byte("a4-1"), Value: []byte(paddings()[:bytes]),
		Headers: []kgo.RecordHeader{{Key: foreignHeader, Value: []byte("1")}},
	}
}

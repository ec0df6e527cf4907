//go:build linux || darwin

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// createTopic creates the topic of an aggregate type.
func (o *outbox) createTopic(aggregateType string) {
	o.t.Helper()
	topic := o.topic(aggregateType)
	err := o.kafka.CreateTopic(o.t.Context(), topic, harness.TopicConfig{
		Partitions: o.partitions(topic), Replication: o.config.replication, Settings: o.config.topicSettings,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exists = append(o.exists, topic)
}

// partitions returns how many partitions a topic is made with.
func (o *outbox) partitions(topic string) int {
	if n := o.config.partitionsOf[strings.TrimPrefix(topic, o.topicPrefix+".")]; n > 0 {
		return n
	}
	return o.config.partitions
}

// topic returns the topic of an aggregate type.
func (o *outbox) topic(aggregateType string) string { return o.topicPrefix + "." + aggregateType }

// topics returns the topics that exist.
func (o *outbox) topics() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.exists)
}

// held returns how many records and markers the topics hold.
func (o *outbox) held() int {
	ends, err := endOffsets(o.t.Context(), o.kafka, o.topics())
	if err != nil {
		return 0
	}
	var held int64
	for _, end := range ends {
		held += end
	}
	return int(held)
}

// partition is one partition of one topic.
type partition struct {
	topic  string
	number int32
}

// endOffsets returns the high watermarks of all partitions of topics.
func endOffsets(ctx context.Context, k *harness.Kafka, topics []string) (map[partition]int64, error) {
	ends := make(map[partition]int64)
	err := eachEnd(ctx, k, topics, func(p partition, end kadm.ListedOffset) { ends[p] = end.Offset })
	return ends, err
}

// trueEnds is endOffsets of leaders that have not been deposed. One that was
// frozen tells where the partition ended before, until it learns that another
// one leads, which those know that have acknowledged since.
func trueEnds(ctx context.Context, k *harness.Kafka, topics []string) (map[partition]int64, error) {
	ends, told := make(map[partition]int64), make(map[partition]int32)
	err := eachEnd(ctx, k, topics, func(p partition, end kadm.ListedOffset) { ends[p], told[p] = end.Offset, end.LeaderEpoch })
	if err != nil {
		return nil, err
	}
	epochs := k.LeaderEpochs(ctx, topics...)
	for p, epoch := range told {
		if newest := epochs[p.topic][p.number]; epoch < newest {
			return nil, fmt.Errorf("partition %d of %s has a leader of epoch %d, and that of %d has answered", p.number, p.topic, newest, epoch)
		}
	}
	return ends, nil
}

// eachEnd calls visit with the end of each partition of topics.
func eachEnd(ctx context.Context, k *harness.Kafka, topics []string, visit func(partition, kadm.ListedOffset)) error {
	listed, err := k.Admin().ListEndOffsets(ctx, topics...)
	if err = errors.Join(err, listed.Error()); err != nil {
		return err
	}
	for topic, partitions := range listed {
		for number, end := range partitions {
			visit(partition{topic, number}, end)
		}
	}
	return nil
}

// mustEndOffsets is endOffsets of all topics, or ends the test.
func (o *outbox) mustEndOffsets() map[partition]int64 {
	o.t.Helper()
	ends, err := endOffsets(o.t.Context(), o.kafka, o.topics())
	if err != nil {
		o.t.Fatal(err)
	}
	return ends
}

// records returns all that the topics hold.
func (o *outbox) records() []harness.Record {
	o.t.Helper()
	records, err := o.kafka.ReadAll(o.t.Context(), o.topics()...)
	if err != nil {
		o.t.Fatal(err)
	}
	return records
}

// eachRecord calls visit with all that the topics hold, the records of a
// partition in order.
func (o *outbox) eachRecord(visit func(harness.Record)) {
	o.t.Helper()
	limit := max(long(2*time.Minute, 20*time.Minute), tortureLength(o.t))
	ctx, cancel := context.WithTimeoutCause(o.t.Context(), limit, fmt.Errorf("the topics were not read within %s", limit))
	defer cancel()
	if err := o.kafka.ReadEach(ctx, visit, o.topics()...); err != nil {
		o.t.Fatal(err)
	}
}

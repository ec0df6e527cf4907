//go:build linux || darwin

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	listed, err := k.Admin().ListEndOffsets(ctx, topics...)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	ends := make(map[partition]int64)
	for topic, partitions := range listed {
		for number, end := range partitions {
			ends[partition{topic, number}] = end.Offset
		}
	}
	return ends, nil
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

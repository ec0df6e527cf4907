//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watcher looks at how far topics are, without reading them: it asks the one
// broker for end offsets.
type watcher struct {
	client     *kgo.Client
	topics     []string
	partitions int // of each
	request    *kmsg.ListOffsetsRequest
}

// sighting is what the end offsets say at a time.
type sighting struct {
	at time.Time
	// records is how many there are. Each partition that was acquired begins
	// with the marker of the acquisition, which is no record.
	records  int64
	acquired int // partitions with a marker
	writing  int // partitions with records
}

// newWatcher returns a watcher of topics of so many partitions each.
func newWatcher(client *kgo.Client, topics []string, partitions int) *watcher {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	for _, name := range topics {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = name
		for i := range partitions {
			partition := kmsg.NewListOffsetsRequestTopicPartition()
			partition.Partition = int32(i)
			partition.CurrentLeaderEpoch = -1
			partition.Timestamp = -1 // the end
			topic.Partitions = append(topic.Partitions, partition)
		}
		request.Topics = append(request.Topics, topic)
	}
	return &watcher{client, topics, partitions, request}
}

func (w *watcher) look(ctx context.Context) (sighting, error) {
	response, err := w.request.RequestWith(ctx, w.client.SeedBrokers()[0])
	s := sighting{at: time.Now()}
	if err != nil {
		return s, fmt.Errorf("end offsets: %w", err)
	}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return s, fmt.Errorf("end offset of topic %s, partition %d: %w", topic.Topic, p.Partition, err)
			}
			if p.Offset > 0 {
				s.acquired++
				s.records += p.Offset - 1
			}
			if p.Offset > 1 {
				s.writing++
			}
		}
	}
	return s, nil
}

// renewTopics makes the topics empty: it deletes those that exist and makes them
// again.
func (w *watcher) renewTopics(ctx context.Context) error {
	admin, topics, partitions := kadm.NewClient(w.client), w.topics, w.partitions
	deleted, err := admin.DeleteTopics(ctx, topics...)
	if err != nil {
		return err
	}
	for _, d := range deleted {
		if d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("delete topic %s: %w", d.Topic, d.Err)
		}
	}
	err = await(ctx, "the topics are gone", 20*time.Millisecond, func() (bool, error) {
		listed, err := admin.ListTopics(ctx, topics...)
		return !slices.ContainsFunc(topics, listed.Has), err
	})
	if err != nil {
		return err
	}
	created, err := admin.CreateTopics(ctx, int32(partitions), 1, nil, topics...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	// The broker knows of a topic before it leads its partitions.
	return await(ctx, "the topics have leaders", 20*time.Millisecond, func() (bool, error) {
		now, err := w.look(ctx)
		return err == nil && now == sighting{at: now.at}, ctx.Err()
	})
}

// await asks every so often until condition holds, an error comes, or ctx ends.
func await(ctx context.Context, what string, every time.Duration, condition func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ok, err := condition()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("until %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

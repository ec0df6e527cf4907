//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicConfig says how CreateTopic makes a topic.
type TopicConfig struct {
	// Partitions is their number; 0 is 1.
	Partitions int
	// Replication is the number of replicas; 0 is the number of brokers.
	Replication int
	// Settings are the topic's own configuration.
	Settings map[string]string
}

// CreateTopic makes a topic and waits until each partition has a leader that
// every broker knows.
func (k *Kafka) CreateTopic(ctx context.Context, name string, config TopicConfig) error {
	replication := config.Replication
	if replication == 0 {
		replication = len(k.brokers)
	}
	partitions := max(config.Partitions, 1)
	settings := make(map[string]*string)
	for key, value := range config.Settings {
		settings[key] = &value
	}
	_, err := k.Admin().CreateTopic(ctx, int32(partitions), int16(replication), settings, name)
	// A request that a busy broker answers too late is made again, and then
	// finds its own work.
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return k.awaitTopic(ctx, name, partitions)
}

// AlterTopic changes settings of a topic; those not named stay.
func (k *Kafka) AlterTopic(ctx context.Context, name string, settings map[string]string) error {
	var configs []kadm.AlterConfig
	for key, value := range settings {
		configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	responses, err := k.Admin().AlterTopicConfigs(ctx, configs, name)
	for _, r := range responses {
		err = errors.Join(err, r.Err)
	}
	return err
}

// AddPartitions raises the number of a topic's partitions and waits until all
// have leaders.
func (k *Kafka) AddPartitions(ctx context.Context, name string, total int) error {
	responses, err := k.Admin().UpdatePartitions(ctx, total, name)
	for _, r := range responses {
		err = errors.Join(err, r.Err)
	}
	// As with CreateTopic, a second request finds the work of the first.
	if err != nil && !errors.Is(err, kerr.InvalidPartitions) {
		return fmt.Errorf("set partitions of topic %s to %d: %w", name, total, err)
	}
	return k.awaitTopic(ctx, name, total)
}

// awaitTopic waits until every running broker shows a leader for each
// partition.
func (k *Kafka) awaitTopic(ctx context.Context, name string, partitions int) error {
	return poll(ctx, patience, 20*time.Millisecond, func(ctx context.Context) error {
		for _, b := range k.brokers {
			if !b.Running() {
				continue
			}
			topic, err := b.topic(ctx, name)
			if err != nil {
				return err
			}
			if len(topic.Partitions) != partitions {
				return fmt.Errorf("broker %d knows %d of %d partitions of topic %s", b.index, len(topic.Partitions), partitions, name)
			}
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil || p.Leader < 0 {
					return fmt.Errorf("topic %s, partition %d: no leader (%w)", name, p.Partition, err)
				}
			}
		}
		return nil
	})
}

// DeleteTopic removes a topic. One that is not there is removed already.
func (k *Kafka) DeleteTopic(ctx context.Context, name string) error {
	responses, err := k.Admin().DeleteTopics(ctx, name)
	for _, r := range responses {
		if !errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, r.Err)
		}
	}
	return err
}

// DeleteRecords removes the records of a partition in front of an offset.
func (k *Kafka) DeleteRecords(ctx context.Context, topic string, partition int32, before int64) error {
	offsets := make(kadm.Offsets)
	offsets.AddOffset(topic, partition, before, -1)
	responses, err := k.Admin().DeleteRecords(ctx, offsets)
	return errors.Join(err, responses.Error())
}

// DropFeature turns a feature of the cluster off for good.
func (k *Kafka) DropFeature(ctx context.Context, name string) error {
	const safely = 2
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = name, 0, safely
	request := kmsg.NewUpdateFeaturesRequest()
	request.FeatureUpdates = append(request.FeatureUpdates, update)
	response, err := request.RequestWith(ctx, k.client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	for i := 0; err == nil && i < len(response.Results); i++ {
		err = kerr.ErrorForCode(response.Results[i].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("drop the feature %s: %w", name, err)
	}
	return nil
}

// MoveLeader makes a broker the leader of a partition and waits until it is.
// The replicas stay where they are, but the broker becomes one of them, and
// with that preferred.
func (k *Kafka) MoveLeader(ctx context.Context, topic string, partition int32, to int) error {
	node := k.brokers[to].nodeID()
	now, err := k.partition(ctx, topic, partition)
	if err != nil {
		return err
	}
	replicas := slices.DeleteFunc(slices.Clone(now.Replicas), func(id int32) bool { return id == node })
	replicas = append([]int32{node}, replicas...)[:len(now.Replicas)]
	var request kadm.AlterPartitionAssignmentsReq
	request.Assign(topic, partition, replicas)
	responses, err := k.Admin().AlterPartitionAssignments(ctx, request)
	if err := errors.Join(err, responses.Error()); err != nil {
		return fmt.Errorf("reassign topic %s, partition %d: %w", topic, partition, err)
	}
	return poll(ctx, patience, 50*time.Millisecond, func(ctx context.Context) error { return k.elect(ctx, topic, partition, to) })
}

// elect asks for the preferred leader and returns nil if it leads.
func (k *Kafka) elect(ctx context.Context, topic string, partition int32, to int) error {
	leader, err := k.Leader(ctx, topic, partition)
	if err == nil && leader == to {
		return nil
	}
	set := make(kadm.TopicsSet)
	set.Add(topic, partition)
	results, err := k.Admin().ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	if err != nil {
		return err
	}
	if err := results[topic][partition].Err; err != nil && !errors.Is(err, kerr.ElectionNotNeeded) {
		return err
	}
	return fmt.Errorf("broker %d does not lead topic %s, partition %d yet", to, topic, partition)
}

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
	"github.com/twmb/franz-go/pkg/kgo"
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

// topic asks this very broker for what it knows of a topic.
func (b *Broker) topic(ctx context.Context, name string) (kmsg.MetadataResponseTopic, error) {
	response, err := metadataRequest(name).RequestWith(ctx, b.kafka.client.Broker(int(b.nodeID())))
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	if len(response.Topics) != 1 {
		return kmsg.MetadataResponseTopic{}, fmt.Errorf("broker %d answered for %d topics", b.index, len(response.Topics))
	}
	return response.Topics[0], kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

// metadataRequest asks for topics, and has none created for it. A request
// belongs to one broker: the client writes in it.
func metadataRequest(topics ...string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	request.AllowAutoTopicCreation = false
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// LeaderEpochs returns the newest epoch of the leader of each partition of
// topics that any broker knows. Those that do not answer soon are left out.
func (k *Kafka) LeaderEpochs(ctx context.Context, topics ...string) map[string]map[int32]int32 {
	const soon = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	answers := make(chan *kmsg.MetadataResponse, len(k.brokers))
	for _, b := range k.brokers {
		go func() {
			response, err := metadataRequest(topics...).RequestWith(ctx, k.client.Broker(int(b.nodeID())))
			if err != nil {
				response = &kmsg.MetadataResponse{}
			}
			answers <- response
		}()
	}
	newest := make(map[string]map[int32]int32)
	for range k.brokers {
		for _, topic := range (<-answers).Topics {
			epochs := newest[*topic.Topic]
			if epochs == nil {
				epochs = make(map[int32]int32)
				newest[*topic.Topic] = epochs
			}
			for _, p := range topic.Partitions {
				epochs[p.Partition] = max(epochs[p.Partition], p.LeaderEpoch)
			}
		}
	}
	return newest
}

// answers returns nil if a broker answers.
func answers(ctx context.Context, broker *kgo.Broker) error {
	request := kmsg.NewApiVersionsRequest()
	_, err := request.RequestWith(ctx, broker)
	return err
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

// Leader returns the index of the broker that leads a partition, or an error if
// none does.
func (k *Kafka) Leader(ctx context.Context, topic string, partition int32) (int, error) {
	p, err := k.partition(ctx, topic, partition)
	if err != nil {
		return 0, err
	}
	if p.Leader < 0 {
		return 0, fmt.Errorf("topic %s, partition %d has no leader", topic, partition)
	}
	return int(p.Leader) - 1, nil
}

// Controller returns the index of the broker that is the active controller.
func (k *Kafka) Controller(ctx context.Context) (int, error) {
	request := kmsg.NewDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, k.client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the controller: %w", err)
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if p.LeaderID > 0 {
				return int(p.LeaderID) - 1, nil
			}
		}
	}
	return 0, errors.New("there is no active controller")
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

// InSync returns nil if every replica of every partition of topics is in sync.
func (k *Kafka) InSync(ctx context.Context, topics ...string) error {
	listed, err := k.Admin().ListTopics(ctx, topics...)
	if err != nil {
		return err
	}
	for name, topic := range listed {
		for number, p := range topic.Partitions {
			if len(p.ISR) < len(p.Replicas) {
				return fmt.Errorf("topic %s, partition %d: %d of %d replicas are in sync", name, number, len(p.ISR), len(p.Replicas))
			}
		}
	}
	return nil
}

// partition asks the cluster for a partition's state.
func (k *Kafka) partition(ctx context.Context, topic string, partition int32) (kadm.PartitionDetail, error) {
	topics, err := k.Admin().ListTopics(ctx, topic)
	if err != nil {
		return kadm.PartitionDetail{}, err
	}
	if err := topics[topic].Err; err != nil {
		return kadm.PartitionDetail{}, fmt.Errorf("topic %s: %w", topic, err)
	}
	p, known := topics[topic].Partitions[partition]
	if !known {
		return kadm.PartitionDetail{}, fmt.Errorf("topic %s has no partition %d", topic, partition)
	}
	return p, nil
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

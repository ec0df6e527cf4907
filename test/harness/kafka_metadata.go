//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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

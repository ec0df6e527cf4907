package publisher

import (
	"context"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

// brokerLimits are settings of the brokers that our rules depend on; zero where
// we have no right to read them (DESCRIBE_CONFIGS on the cluster).
type brokerLimits struct {
	// producerExpiry is the smallest producer.id.expiration.ms: how long, by the
	// timestamps of its records, a producer's sequence is remembered.
	producerExpiry time.Duration
	// replicaLag is the largest replica.lag.time.max.ms.
	replicaLag time.Duration
}

// The names of the settings.
const (
	producerExpirySetting = "producer.id.expiration.ms"
	replicaLagSetting     = "replica.lag.time.max.ms"
	maxMessageSetting     = "max.message.bytes"
	minInSyncSetting      = "min.insync.replicas"
)

// brokerLimits asks every broker about itself.
func (c *cluster) brokerLimits(ctx context.Context) brokerLimits {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var limits brokerLimits
	addrs, err := c.brokerAddresses(ctx)
	if err != nil {
		return limits
	}
	ids := c.brokerIDs()
	answers, err := every(ctx, addrs, func(ctx context.Context, addr string) (map[string]int64, error) {
		return c.settings(ctx, addr, sarama.BrokerResource, strconv.Itoa(int(ids[addr])), producerExpirySetting, replicaLagSetting)
	})
	if err != nil {
		return limits
	}
	for _, answer := range answers {
		if v, ok := answer[producerExpirySetting]; ok {
			expiry := time.Duration(v) * time.Millisecond
			if limits.producerExpiry == 0 || expiry < limits.producerExpiry {
				limits.producerExpiry = expiry
			}
		}
		if v, ok := answer[replicaLagSetting]; ok {
			limits.replicaLag = max(limits.replicaLag, time.Duration(v)*time.Millisecond)
		}
	}
	return limits
}

// maxMessageBytes returns the topic's max.message.bytes, 0 if it cannot be read.
func (c *cluster) maxMessageBytes(ctx context.Context, topic string) int {
	return c.topicSetting(ctx, topic, maxMessageSetting)
}

// topicSetting returns a number that the topic is configured with, 0 if we have no
// right to read it (DESCRIBE_CONFIGS on the topic).
func (c *cluster) topicSetting(ctx context.Context, topic, name string) int {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := first(ctx, c.addresses(), func(ctx context.Context, addr string) (map[string]int64, error) {
		return c.settings(ctx, addr, sarama.TopicResource, topic, name)
	})
	if err != nil {
		return 0
	}
	return int(answer[name])
}

// brokerIDs maps addresses to ids.
func (c *cluster) brokerIDs() map[string]int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make(map[string]int32, len(c.brokers))
	for id, addr := range c.brokers {
		ids[addr] = id
	}
	return ids
}

// settings reads numeric settings of one resource.
func (c *cluster) settings(ctx context.Context, addr string, kind sarama.ConfigResourceType, name string, names ...string) (map[string]int64, error) {
	var answer *sarama.DescribeConfigsResponse
	err := c.calls.call(ctx, addr, func(broker *sarama.Broker) (err error) {
		answer, err = broker.DescribeConfigs(&sarama.DescribeConfigsRequest{
			Version:   2,
			Resources: []*sarama.ConfigResource{{Type: kind, Name: name, ConfigNames: names}},
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	values := make(map[string]int64)
	for _, resource := range answer.Resources {
		if err := refusal(sarama.KError(resource.ErrorCode)); err != nil {
			return nil, err
		}
		for _, entry := range resource.Configs {
			if v, err := strconv.ParseInt(entry.Value, 10, 64); err == nil {
				values[entry.Name] = v
			}
		}
	}
	return values, nil
}

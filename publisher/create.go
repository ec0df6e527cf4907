package publisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// CreateTopics says how topics that are missing are made.
type CreateTopics struct {
	// Enabled has a missing topic made. Otherwise the brokers'
	// auto.create.topics.enable decides.
	Enabled bool
	// Partitions and Replication are those of a new topic; 0 is the brokers'
	// default (Kafka 2.4, KIP-464).
	Partitions  int32
	Replication int16
}

// validate reports every fault, each by its flag.
func (c CreateTopics) validate() (faults []error) {
	for _, number := range []struct {
		flag  string
		value int64
	}{{"--create-topics-partitions", int64(c.Partitions)}, {"--create-topics-replication", int64(c.Replication)}} {
		switch {
		case number.value < 0:
			faults = append(faults, fmt.Errorf("%s must be at least 1, or 0 for the brokers' default, got %d", number.flag, number.value))
		case number.value > 0 && !c.Enabled:
			faults = append(faults, fmt.Errorf("%s needs --create-topics, got %d without it", number.flag, number.value))
		}
	}
	return faults
}

// detail is a new topic on the wire, where the brokers' default is -1.
func (c CreateTopics) detail() *sarama.TopicDetail {
	detail := &sarama.TopicDetail{NumPartitions: -1, ReplicationFactor: -1}
	if c.Partitions > 0 {
		detail.NumPartitions = c.Partitions
	}
	if c.Replication > 0 {
		detail.ReplicationFactor = c.Replication
	}
	return detail
}

// createError says that a missing topic could not be made.
type createError struct {
	topic   string
	asked   CreateTopics
	brokers int // as many as there are
	err     error
	// said is what the controller said beside the code; may be empty.
	said string
}

func (e *createError) Error() string {
	text := fmt.Sprintf("topic %q is missing and cannot be created with %s and %s; the cluster has %d brokers: %v",
		e.topic, orDefault(int(e.asked.Partitions), "partitions"), orDefault(int(e.asked.Replication), "replicas"), e.brokers, e.err)
	if e.said != "" {
		text += ": " + e.said
	}
	return text
}

func (e *createError) Unwrap() error { return e.err }

func orDefault(n int, things string) string {
	if n == 0 {
		return "the default number of " + things
	}
	return fmt.Sprintf("%d %s", n, things)
}

// create makes a topic. One that exists, because another process was quicker or
// a broker does not know it yet, is no error. Any other is a *createError.
func (c *cluster) create(ctx context.Context, topic string) error {
	said, err := c.createOnce(ctx, topic)
	if code, _ := codeOf(err); code == sarama.ErrNotController {
		// The answer takes the controller in.
		if err = c.connect(ctx); err == nil {
			said, err = c.createOnce(ctx, topic)
		}
	}
	code, _ := codeOf(err)
	if err == nil || code == sarama.ErrTopicAlreadyExists {
		return nil
	}
	return &createError{topic: topic, asked: c.conf.Create, brokers: len(c.knownAddresses()), err: err, said: said}
}

// createOnce asks the controller and returns what it said beside the code.
func (c *cluster) createOnce(ctx context.Context, topic string) (said string, err error) {
	c.mu.Lock()
	controller := c.controller
	c.mu.Unlock()
	request := sarama.NewCreateTopicsRequest(c.calls.conf.Version, map[string]*sarama.TopicDetail{topic: c.conf.Create.detail()}, produceTimeout, false)
	err = c.call(ctx, controller, func(broker *sarama.Broker) error {
		answer, err := broker.CreateTopics(request)
		if err != nil {
			return err
		}
		result := answer.TopicErrors[topic]
		if result == nil {
			return sarama.ErrIncompleteResponse
		}
		if result.ErrMsg != nil {
			said = *result.ErrMsg
		}
		return refusal(result.Err)
	})
	if errors.Is(err, sarama.ErrBrokerNotAvailable) {
		err = refusal(sarama.ErrNotController) // it is not among the brokers that are known
	}
	return said, err
}

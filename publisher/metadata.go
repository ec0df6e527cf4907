package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// topicMetadata is what the brokers say about a topic.
type topicMetadata struct {
	name string
	// id is the topic's own; zero where the broker lacks Metadata version 10.
	// A topic that was deleted and created again has another one.
	id sarama.Uuid
	// partitions is the partition count for routing: the largest that was ever
	// answered for this id.
	partitions int32
	// leaders holds a broker id by partition, noLeader where there is none.
	leaders []int32
	// epochs are the leader epochs, by which the newer of two answers is told.
	epochs []int32
	// at is when the question was sent.
	at time.Time
}

// noLeader stands for a broker where a partition has none.
const noLeader int32 = -1

// leader returns the leader of a partition, noLeader if there is none or the
// partition is not known yet.
func (t topicMetadata) leader(partition int32) int32 {
	if int(partition) >= len(t.leaders) {
		return noLeader
	}
	return t.leaders[partition]
}

// topicError is what the brokers answer instead of a topic's metadata: 3 unknown,
// 17 invalid name, 29 not authorized, 5 just created and without leaders yet.
type topicError struct {
	topic string
	code  sarama.KError
}

func (e *topicError) Error() string {
	return fmt.Sprintf("topic %q: %s", e.topic, codeText(e.code))
}

func (e *topicError) Unwrap() error { return e.code }

// refreshInterval is how often the leaders of a topic are looked up at most.
const refreshInterval = 100 * time.Millisecond

// topic asks all brokers about the topic. Its partition count decides the
// routing, so the largest answer counts, and the cached one is no answer. The
// error wraps a topicError, a createError, errNewTopic, or errNoBroker.
func (c *cluster) topic(ctx context.Context, name string) (topicMetadata, error) {
	addrs, err := c.brokerAddresses(ctx)
	if err != nil {
		return topicMetadata{}, err
	}
	ask := func(ctx context.Context, addr string) (topicMetadata, error) {
		return c.ask(ctx, addr, name)
	}
	answers, err := every(ctx, addrs, ask)
	if err != nil && errors.Is(err, errNoBroker) && answerOf(err) == nil {
		// Not one of the known addresses answers: they may all have changed.
		var answer topicMetadata
		answer, err = first(ctx, c.addresses(), ask)
		answers = []topicMetadata{answer}
	}
	if err != nil {
		if answer := answerOf(err); answer != nil {
			return topicMetadata{}, c.createMissing(ctx, answer)
		}
		return topicMetadata{}, fmt.Errorf("metadata of topic %q: %w", name, err)
	}
	merged := answers[0]
	for _, answer := range answers[1:] {
		merged = merged.merge(answer)
	}
	return c.remember(merged), nil
}

// createMissing makes the topic that the brokers do not know, if that is asked
// for, and returns why the topic is not there: newly made, it takes a moment to
// get about.
func (c *cluster) createMissing(ctx context.Context, answer *topicError) error {
	if answer.code != sarama.ErrUnknownTopicOrPartition || !c.conf.Create.Enabled {
		return answer
	}
	if err := c.create(ctx, answer.topic); err != nil {
		return err
	}
	return errNewTopic
}

// errNewTopic says that a topic was made, or exists already, and is not known to
// the brokers yet.
var errNewTopic = fmt.Errorf("the topic is being created: %w", refusal(sarama.ErrLeaderNotAvailable))

// answerOf returns the topicError in err, nil if there is none.
func answerOf(err error) *topicError {
	var answer *topicError
	if errors.As(err, &answer) {
		return answer
	}
	return nil
}

// leaders looks up who leads the partitions of the topics now, with one question
// to one broker, and returns what is known afterwards. Topics that were looked up
// a moment ago are not asked about again, and those that the broker refuses to
// describe are left out. The partition count is not judged by it: only topic does
// that.
func (c *cluster) leaders(ctx context.Context, names ...string) (map[string]topicMetadata, error) {
	known := make(map[string]topicMetadata, len(names))
	var stale []string
	c.mu.Lock()
	for _, name := range names {
		topic, ok := c.topics[name]
		if !ok || time.Since(topic.at) > refreshInterval {
			stale = append(stale, name)
			continue
		}
		known[name] = topic
	}
	c.mu.Unlock()
	if len(stale) == 0 {
		return known, nil
	}
	sent := time.Now()
	answer, err := first(ctx, c.addresses(), func(ctx context.Context, addr string) (*sarama.MetadataResponse, error) {
		return c.metadata(ctx, addr, false, stale...)
	})
	if err != nil {
		return nil, fmt.Errorf("look up the leaders: %w", err)
	}
	var fault error
	for _, t := range answer.Topics {
		if t.Err != sarama.ErrNoError {
			fault = &topicError{topic: t.Name, code: t.Err}
			continue
		}
		known[t.Name] = c.remember(newTopicMetadata(t, sent))
	}
	if len(known) == 0 {
		return nil, fault
	}
	return known, nil
}

// leader returns who leads the partition, from memory if that is newer than
// after. The error is transient unless it wraps a topicError.
func (c *cluster) leader(ctx context.Context, topic string, partition int32, after time.Time) (int32, topicMetadata, error) {
	c.mu.Lock()
	known, ok := c.topics[topic]
	c.mu.Unlock()
	if !ok || known.at.Before(after) || known.leader(partition) == noLeader {
		all, err := c.leaders(ctx, topic)
		if err != nil {
			return noLeader, known, err
		}
		known = all[topic]
	}
	id := known.leader(partition)
	if id == noLeader {
		return noLeader, known, fmt.Errorf("partition %d of topic %q: %w", partition, topic, sarama.ErrLeaderNotAvailable)
	}
	return id, known, nil
}

// ask asks one broker about one topic.
func (c *cluster) ask(ctx context.Context, addr, name string) (topicMetadata, error) {
	sent := time.Now()
	answer, err := c.metadata(ctx, addr, c.conf.AutoCreate, name)
	if err != nil {
		return topicMetadata{}, err
	}
	for _, t := range answer.Topics {
		if t.Name != name {
			continue
		}
		if t.Err != sarama.ErrNoError {
			return topicMetadata{}, &topicError{topic: name, code: t.Err}
		}
		return newTopicMetadata(t, sent), nil
	}
	return topicMetadata{}, fmt.Errorf("broker %s: %w", addr, sarama.ErrIncompleteResponse)
}

func newTopicMetadata(t *sarama.TopicMetadata, sent time.Time) topicMetadata {
	count := int32(0)
	for _, p := range t.Partitions {
		count = max(count, p.ID+1)
	}
	topic := topicMetadata{name: t.Name, id: t.Uuid, partitions: count, at: sent}
	topic.leaders = make([]int32, count)
	topic.epochs = make([]int32, count)
	for i := range topic.leaders {
		topic.leaders[i] = noLeader
	}
	for _, p := range t.Partitions {
		if p.ID < 0 {
			continue
		}
		topic.epochs[p.ID] = p.LeaderEpoch
		if p.Err == sarama.ErrNoError || p.Err == sarama.ErrReplicaNotAvailable {
			topic.leaders[p.ID] = p.Leader
		}
	}
	return topic
}

// merge takes from two answers to the same question the leaders of the newer
// epochs, and all partitions that one of them has. Of two incarnations of the
// topic it keeps t.
func (t topicMetadata) merge(other topicMetadata) topicMetadata {
	if t.id != other.id {
		return t
	}
	if len(other.leaders) > len(t.leaders) {
		t, other = other, t
	}
	merged := t
	merged.leaders = append([]int32(nil), t.leaders...)
	merged.epochs = append([]int32(nil), t.epochs...)
	for i, epoch := range other.epochs {
		if epoch > t.epochs[i] || t.leaders[i] == noLeader && epoch == t.epochs[i] {
			merged.leaders[i], merged.epochs[i] = other.leaders[i], epoch
		}
	}
	return merged
}

// remember keeps the answer, unless a newer one is known, and corrects its
// partition count.
func (c *cluster) remember(topic topicMetadata) topicMetadata {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := topicKey{topic.name, topic.id}
	topic.partitions = max(topic.partitions, c.counts[key])
	c.counts[key] = topic.partitions
	if topic.at.After(c.topics[topic.name].at) {
		c.topics[topic.name] = topic
	}
	return topic
}

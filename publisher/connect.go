package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	// suspectAfter is how long addresses may keep silent before it is asked
	// what they are.
	suspectAfter = time.Second
	// newTopicGrace is how long a fixed topic may be missing at the start. One
	// that the brokers make because it was asked for takes a moment.
	newTopicGrace = 3 * time.Second
)

// Reach finds the cluster, so that a wrong address or login is known before
// anything is streamed. It changes nothing. The error is a *Fault.
func (p *Publisher) Reach(ctx context.Context) error {
	if err := p.cluster.reach(ctx); err != nil {
		return connectFault(p.cfg.Brokers, p.cfg.Topic, err)
	}
	return nil
}

// CheckTopics finds the topics whose names are fixed, or has them made. The error
// is a *Fault.
func (p *Publisher) CheckTopics(ctx context.Context) error {
	r, err := p.cfg.Routing.read()
	if err != nil {
		return connectFault(p.cfg.Brokers, p.cfg.Topic, err)
	}
	for _, topic := range r.fixedTopics() {
		if err := p.cluster.check(ctx, topic); err != nil {
			return connectFault(p.cfg.Brokers, topic, err)
		}
	}
	return nil
}

// reach is connect for the start: where no broker answers as one, it says what
// does instead.
func (c *cluster) reach(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var suspicion sync.WaitGroup
	defer suspicion.Wait()
	defer cancel(nil)
	suspicion.Go(func() {
		if sleep(ctx, suspectAfter) == nil {
			if found := c.diagnose(ctx); found != nil {
				cancel(found)
			}
		}
	})
	err := c.connect(ctx)
	if ctx.Err() == nil && diagnosable(err) {
		if found := c.diagnose(ctx); found != nil {
			return found
		}
	}
	return err
}

// diagnosable reports whether err, of connecting, may come from a listener of
// another kind than configured.
func diagnosable(err error) bool {
	code, answered := codeOf(err)
	if answered {
		return code == sarama.ErrUnsupportedSASLMechanism || code == sarama.ErrIllegalSASLState
	}
	return errors.Is(err, errNoBroker)
}

// check finds out whether a topic is there, or can be made, and may be written
// to.
func (c *cluster) check(ctx context.Context, topic string) error {
	_, err := c.topic(ctx, topic)
	for begun := time.Now(); missingYet(err) && time.Since(begun) < newTopicGrace; {
		if err := sleep(ctx, lookupPause); err != nil {
			return err
		}
		_, err = c.topic(ctx, topic)
	}
	if err != nil {
		return err
	}
	return c.checkWrite(ctx, topic)
}

// missingYet reports whether err says that a topic may be there in a moment.
func missingYet(err error) bool {
	return errors.Is(err, sarama.ErrUnknownTopicOrPartition) || errors.Is(err, errNewTopic)
}

// noWriteError says that the brokers would refuse what we publish to a topic.
type noWriteError struct{ topic string }

func (e *noWriteError) Error() string {
	return fmt.Sprintf("no WRITE on topic %q", e.topic)
}

// Unwrap returns what the brokers would answer.
func (e *noWriteError) Unwrap() error { return sarama.ErrTopicAuthorizationFailed }

// The bits of TopicAuthorizedOperations (KIP-430): the number of an operation in
// an ACL is the number of its bit.
const (
	mayWrite      = 1 << 4
	rightsUnknown = -1 << 31
)

// checkWrite asks a broker whether we may write to a topic. Brokers before 2.3 do
// not say; there the first batch shows it.
func (c *cluster) checkWrite(ctx context.Context, topic string) error {
	request := sarama.NewMetadataRequest(c.calls.conf.Version, []string{topic})
	request.IncludeTopicAuthorizedOperations = true
	answer, err := first(ctx, c.addresses(), func(ctx context.Context, addr string) (*sarama.MetadataResponse, error) {
		return c.askMetadata(ctx, addr, *request)
	})
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		rights := t.TopicAuthorizedOperations
		if t.Name == topic && t.Version >= 8 && rights != rightsUnknown && rights&mayWrite == 0 {
			return &noWriteError{topic}
		}
	}
	return nil
}

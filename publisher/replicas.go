package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// shortOfReplicasError says that a partition takes no writes, ours or a
// coordinator's, because too few of its replicas are in sync.
type shortOfReplicasError struct {
	topic     string
	partition int32
	inSync    int
	// needed is the topic's min.insync.replicas, 0 if we may not read it.
	needed int
	err    error
}

func (e *shortOfReplicasError) Error() string {
	if e.needed == 0 {
		return fmt.Sprintf("%s/%d has %d replicas in sync, fewer than min.insync.replicas, which cannot be read without DESCRIBE_CONFIGS on the topic: %v",
			e.topic, e.partition, e.inSync, e.err)
	}
	return fmt.Sprintf("%s/%d has %d replicas in sync and min.insync.replicas is %d: %v", e.topic, e.partition, e.inSync, e.needed, e.err)
}

func (e *shortOfReplicasError) Unwrap() error { return e.err }

// explainUnmarked says more about err, after which a marker is missing: a
// coordinator cannot write it where too few replicas are in sync, and answers 51
// until it has.
func (a *acquiring) explainUnmarked(ctx context.Context, err error) error {
	replicas, inSync := a.cluster.replicas(ctx, a.topic, a.partition)
	setting := a.cluster.topicSetting(ctx, a.topic, minInSyncSetting)
	// No more can be needed than there are. If it is not known, that is all that
	// can be said.
	needed := min(setting, replicas)
	if inSync >= replicas || setting > 0 && needed <= inSync {
		return err
	}
	return &shortOfReplicasError{a.topic, a.partition, inSync, needed, err}
}

// explainAfter is how long a coordinator may answer 51 before that is explained,
// and how often it is explained from then on.
const explainAfter = markerTimeout

// explainBusy explains err if it is the answer 51 and has been for long.
func (a *acquiring) explainBusy(ctx context.Context, err error) error {
	if code, _ := codeOf(err); code != sarama.ErrConcurrentTransactions {
		a.busySince = time.Time{}
		return err
	}
	if a.busySince.IsZero() {
		a.busySince = time.Now()
	}
	if time.Since(a.busySince) < explainAfter {
		return err
	}
	a.busySince = time.Now()
	return a.explainUnmarked(ctx, err)
}

// shortOf says how short of replicas a partition is that refused a batch for that.
func (c *cluster) shortOf(ctx context.Context, topic string, partition int32, refused error) *shortOfReplicasError {
	_, inSync := c.replicas(ctx, topic, partition)
	return &shortOfReplicasError{topic, partition, inSync, c.topicSetting(ctx, topic, minInSyncSetting), refused}
}

// explain puts err, by which p failed, down to too few replicas in sync if that
// is known to be the reason, and has it looked into if the broker says so.
func (s *session) explain(p *partition, err error) error {
	if short := (*shortOfReplicasError)(nil); errors.As(err, &short) {
		p.shortage = short
		return err
	}
	switch code, _ := codeOf(err); code {
	case sarama.ErrNotEnoughReplicas, sarama.ErrNotEnoughReplicasAfterAppend:
		s.lookIntoShortage(p, err)
	case sarama.ErrConcurrentTransactions: // the coordinator still waits for the replicas
	default:
		p.shortage = nil
	}
	if p.shortage != nil {
		return p.shortage
	}
	return err
}

// lookIntoPause is the least time between two looks at the replicas of a
// partition.
const lookIntoPause = 5 * time.Second

// lookIntoShortage asks the brokers about the replicas of p, not too often.
func (s *session) lookIntoShortage(p *partition, refused error) {
	if time.Since(p.lookedInto) < lookIntoPause {
		return
	}
	p.lookedInto = time.Now()
	generation := p.generation
	s.inTurn(func() func() {
		short := s.cluster.shortOf(s.ctx, p.topic.name, p.id, refused)
		return func() {
			switch {
			case p.generation != generation || !p.blamed:
			case short.needed > 0 && short.inSync >= short.needed:
				p.lookedInto = time.Time{} // the broker that was asked lags behind
			default:
				s.troubled(p, "partition has too few replicas in sync", short, time.Now())
			}
		}
	})
}

// replicas returns how many replicas the partition has and how many of them are
// in sync, as one broker knows it; none if no broker answers.
func (c *cluster) replicas(ctx context.Context, topic string, partition int32) (all, inSync int) {
	answer, err := first(ctx, c.addresses(), func(ctx context.Context, addr string) (*sarama.MetadataResponse, error) {
		return c.metadata(ctx, addr, false, topic)
	})
	if err != nil {
		return 0, 0
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if t.Name == topic && p.ID == partition {
				return len(p.Replicas), len(p.Isr)
			}
		}
	}
	return 0, 0
}

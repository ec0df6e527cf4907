package publisher

import (
	"context"
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
	// needed is the topic's min.insync.replicas.
	needed int
	err    error
}

func (e *shortOfReplicasError) Error() string {
	return fmt.Sprintf("%s/%d has %d replicas in sync and min.insync.replicas is %d: %v", e.topic, e.partition, e.inSync, e.needed, e.err)
}

func (e *shortOfReplicasError) Unwrap() error { return e.err }

// explainUnmarked says more about err, after which a marker is missing: a
// coordinator cannot write it where too few replicas are in sync, and answers 51
// until it has.
func (a *acquiring) explainUnmarked(ctx context.Context, err error) error {
	replicas, inSync := a.cluster.replicas(ctx, a.topic, a.partition)
	// No more can be needed than there are.
	needed := min(a.cluster.topicSetting(ctx, a.topic, minInSyncSetting), replicas)
	if needed <= inSync {
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

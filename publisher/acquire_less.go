package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// defaultReplicaLag is what replica.lag.time.max.ms is taken for when it cannot
// be read: the default of the brokers.
const defaultReplicaLag = 30 * time.Second

// doWithLess acquires the partition without the fence, unless that is demanded.
func (a *acquiring) doWithLess(ctx context.Context, lacking *lackingError) (acquisition, error) {
	if a.cluster.conf.Fence == FenceRequire {
		return acquisition{}, &fenceRequiredError{lacking.reason}
	}
	return a.lookTwice(ctx, lacking.reason)
}

// lookTwice acquires the partition without the fence, in rounds without limit.
func (a *acquiring) lookTwice(ctx context.Context, reason string) (acquisition, error) {
	for pauses := roundPauses(); ; {
		acquired, err := a.lookTwiceOnce(ctx, reason)
		if err == nil || !callsForAnotherRound(err) {
			return acquired, err
		}
		a.tell(err)
		if err := a.beforeNextRound(ctx, pauses.after(err)); err != nil {
			return acquired, err
		}
	}
}

// lookTwiceOnce takes a plain producer id and looks for the tail, waits until
// what a predecessor had under way must have become visible or have failed, and
// looks again. The second look counts.
func (a *acquiring) lookTwiceOnce(ctx context.Context, reason string) (acquisition, error) {
	acquired := acquisition{mode: acquiredLookingTwice, reason: reason}
	if err := a.takePlainProducer(ctx, &acquired); err != nil {
		return acquired, err
	}
	if a.origin == "" {
		acquired.mode, acquired.reason = acquiredBlind, reason+"; records without position cannot be recognised"
		return acquired, a.noteBounds(ctx, &acquired)
	}
	err := a.look(ctx, &acquired)
	if code, _ := codeOf(err); code == sarama.ErrTopicAuthorizationFailed {
		return acquired, a.goBlind(&acquired)
	}
	if err != nil {
		return acquired, err
	}
	wait := a.visibleAfter(ctx)
	a.log.Info("partition is looked at twice", "reason", reason, "wait", wait)
	if err := sleep(ctx, wait); err != nil {
		return acquired, err
	}
	if err := a.look(ctx, &acquired); err != nil {
		return acquired, err
	}
	return acquired, a.checkAcknowledged(ctx, bounds{acquired.logStart, acquired.endOffset}, acquired.tail)
}

// noteBounds notes where the partition begins and ends.
func (a *acquiring) noteBounds(ctx context.Context, acquired *acquisition) error {
	now, err := a.scan.bounds(ctx)
	acquired.endOffset, acquired.logStart = now.end, now.start
	return err
}

// look looks for the tail without a marker. It always reads something, as that
// shows whether it may.
func (a *acquiring) look(ctx context.Context, acquired *acquisition) error {
	if err := a.noteBounds(ctx, acquired); err != nil {
		return err
	}
	if _, err := a.scan.fetch(ctx, acquired.endOffset); err != nil {
		return err
	}
	var err error
	acquired.tail, err = a.tailBefore(ctx, bounds{acquired.logStart, acquired.endOffset})
	return err
}

// visibleAfter is how long a record that was sent before may stay invisible: a
// broker gives it up after the produce timeout, and a follower that hangs holds
// the high watermark back until it has left the in-sync replicas.
func (a *acquiring) visibleAfter(ctx context.Context) time.Duration {
	lag := a.cluster.brokerLimits(ctx).replicaLag
	if lag == 0 {
		lag = defaultReplicaLag
	}
	return produceTimeout + lag
}

func (a *acquiring) takePlainProducer(ctx context.Context, acquired *acquisition) (err error) {
	for {
		acquired.identity, err = a.cluster.plainProducer(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if classify(err).class == classOperator {
			return err
		}
		a.tell(err)
		if err := a.pause.wait(ctx); err != nil {
			return err
		}
	}
}

// goBlind is what is left without the right to read: nothing is known about the
// tail, so nothing is skipped. A producer id that came with a fence is kept, as
// its first batch still shuts the predecessors out.
func (a *acquiring) goBlind(acquired *acquisition) error {
	reason := fmt.Sprintf("no READ on topic %q; grant READ on it", a.topic)
	if acquired.reason != "" {
		reason = acquired.reason + "; " + reason
	}
	if a.cluster.conf.Fence == FenceRequire {
		return &fenceRequiredError{reason}
	}
	acquired.mode, acquired.reason, acquired.tail = acquiredBlind, reason, nil
	return nil
}

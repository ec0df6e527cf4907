package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// onCoordinator runs one step with the coordinator until it succeeds. What a
// moment cures is tried again, with the coordinator looked up anew; an error that
// isFenced, or of class operator, is returned. When no coordinator is to be had
// for the start timeout although the leader of the partition answers, that is a
// lackingError.
func (a *acquiring) onCoordinator(ctx context.Context, step func() error) error {
	a.missing, a.busySince = time.Time{}, time.Time{}
	for {
		err := noRight(step())
		var lacking *lackingError
		if err == nil || isFenced(err) || errors.As(err, &lacking) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		code, _ := codeOf(err)
		if classify(err).class == classOperator && !a.exists(ctx, code) {
			return err
		}
		a.tell(a.explainBusy(ctx, err))
		if err := a.noteMissing(ctx, err); err != nil {
			return err
		}
		if err := a.pause.wait(ctx); err != nil {
			return err
		}
	}
}

// noteMissing keeps the time since when no coordinator does its work. Code 51
// comes from one that does.
func (a *acquiring) noteMissing(ctx context.Context, err error) error {
	code, _ := codeOf(err)
	switch {
	case code == sarama.ErrConcurrentTransactions:
		a.missing = time.Time{}
	case a.missing.IsZero():
		a.missing = time.Now()
	case time.Since(a.missing) >= a.cluster.conf.StartTimeout && a.leaderAnswers(ctx):
		return &lackingError{fmt.Sprintf("no transaction coordinator for %v, although the leader of %s/%d answers: %v",
			a.cluster.conf.StartTimeout, a.topic, a.partition, err)}
	}
	return nil
}

// leaderAnswers makes one attempt.
func (a *acquiring) leaderAnswers(ctx context.Context) bool {
	once := *a.scan.reader
	once.retry = func(_ context.Context, err error) error { return err }
	_, err := once.offset(ctx, sarama.OffsetNewest)
	return err == nil
}

// noRight turns the answer that we have no right on the transactional id into a
// lackingError.
func noRight(err error) error {
	if code, _ := codeOf(err); code == sarama.ErrTransactionalIDAuthorizationFailed {
		return &lackingError{"no right on the transactional id; grant WRITE and DESCRIBE on transactional ids with prefix outbox-cdc. (" + err.Error() + ")"}
	}
	return err
}

// cannotFence turns an answer to InitProducerID that says we never shall get a
// producer id this way into a lackingError.
func cannotFence(err error) error {
	code, _ := codeOf(err)
	switch code {
	case sarama.ErrInvalidTxnState, sarama.ErrUnsupportedVersion:
		return &lackingError{"the brokers have no transactions (" + err.Error() + ")"}
	case sarama.ErrInvalidTransactionTimeout:
		return &lackingError{fmt.Sprintf("the brokers' transaction.max.timeout.ms is below %v (%v)", transactionTimeout, err)}
	}
	return err
}

// pauses are those between rounds, by the reason for another one.
type pauses struct{ unmarked, other backoff }

func roundPauses() *pauses {
	return &pauses{unmarked: backoff{firstPause, longPause}, other: backoff{firstPause, fencedPause}}
}

// after returns the pause after a round that failed with err. A marker has been
// waited for already, and a leader that comes back makes the next round succeed.
func (p *pauses) after(err error) *backoff {
	if errors.Is(err, errNoMarker) {
		return &p.unmarked
	}
	return &p.other
}

// beforeNextRound waits and makes sure that the slot is still ours: the next
// InitProducerID shuts out whoever has acquired the partition meanwhile.
func (a *acquiring) beforeNextRound(ctx context.Context, pause *backoff) error {
	if err := pause.wait(ctx); err != nil {
		return err
	}
	return a.stillOurs(ctx)
}

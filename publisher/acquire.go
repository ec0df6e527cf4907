package publisher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/IBM/sarama"
)

// markerTimeout is how long the marker is waited for before it is taken for lost.
const markerTimeout = 3 * time.Second

// The pauses between attempts: after an answer that a moment cures, and after one
// that says somebody else owns a slot of this name.
const (
	firstPause  = 50 * time.Millisecond
	longPause   = time.Second
	fencedPause = 30 * time.Second
)

// acquire makes the partition ours, shuts out whoever wrote to it before, and
// says what is already there. It may be called only while the slot is held, and
// while nothing of the partition is under way. It tries without limit until ctx
// ends. Errors: lostDataError, fenceRequiredError, topicError, errTopicReplaced,
// the error of stillOurs, and those of class operator.
func (c *cluster) acquire(ctx context.Context, request acquireRequest) (acquisition, error) {
	a := newAcquiring(c, request)
	switch {
	case c.conf.Fence == FenceOff:
		return a.lookTwice(ctx, "--fence off")
	case request.plain:
		return a.doWithLess(ctx, &lackingError{"the broker refused a record under the producer id of a transactional id (87)"})
	}
	pauses := roundPauses()
	for round := 1; ; round++ {
		acquired, err := a.exactly(ctx)
		var lacking *lackingError
		switch {
		case err == nil:
			return acquired, nil
		case errors.As(err, &lacking):
			return a.doWithLess(ctx, lacking)
		case !callsForAnotherRound(err):
			return acquisition{}, err
		case isFenced(err) && isPowerOfTwo(round):
			a.log.Warn("another instance acquires this partition: it owns, or believes to own, a slot of this name", "error", err, "rounds", round)
		}
		if errors.Is(err, errNoMarker) {
			err = a.explainUnmarked(ctx, err)
		}
		a.tell(err)
		if err := a.beforeNextRound(ctx, pauses.after(err)); err != nil {
			return acquisition{}, err
		}
	}
}

// callsForAnotherRound reports whether a round may succeed where one failed with
// err.
func callsForAnotherRound(err error) bool {
	return isFenced(err) || errors.Is(err, errNoMarker) || errors.Is(err, errTruncated) || errors.Is(err, errUnreadable)
}

// isPowerOfTwo thins out what is said again and again.
func isPowerOfTwo(n int) bool { return n&(n-1) == 0 }

// isFenced reports whether another one has taken the transactional id (47, 49,
// 90), or the coordinator ended the transaction of one that was frozen (48).
func isFenced(err error) bool {
	code, _ := codeOf(err)
	switch code {
	case sarama.ErrInvalidProducerEpoch, sarama.ErrInvalidTxnState, sarama.ErrInvalidProducerIDMapping, sarama.ErrProducerFenced:
		return true
	}
	return false
}

// acquiring is one acquisition under way. It belongs to one goroutine.
type acquiring struct {
	acquireRequest
	cluster     *cluster
	coordinator coordinator
	scan        scan
	log         *slog.Logger
	// missing is since when no coordinator answers, zero while one does.
	missing time.Time
	// busySince is since when the coordinator has answered 51 without being
	// explained, zero while it does not.
	busySince time.Time
	// pause is how long to wait after the next transient answer.
	pause backoff
}

func newAcquiring(c *cluster, request acquireRequest) *acquiring {
	a := &acquiring{
		acquireRequest: request,
		cluster:        c,
		coordinator:    coordinator{cluster: c, transactionalID: request.transactionalID},
		log:            c.log.With("topic", request.topic, "partition", request.partition),
		pause:          backoff{firstPause, longPause},
	}
	a.scan = scan{
		reader: &reader{
			cluster:   c,
			topic:     request.topic,
			topicID:   request.topicID,
			partition: request.partition,
			failedAt:  time.Now(), // the topic may have been replaced since the last look
			retry:     a.retry,
		},
		origin:         request.origin,
		eventIDHeader:  request.eventIDHeader,
		positionHeader: request.positionHeader,
	}
	return a
}

// exactly makes one round: producer id, empty transaction, marker, look. An error
// that isFenced, or errNoMarker, calls for another round.
func (a *acquiring) exactly(ctx context.Context) (acquisition, error) {
	acquired := acquisition{mode: acquiredExact}
	for _, step := range a.steps() {
		a.pause = backoff{firstPause, longPause}
		if err := step(ctx, &acquired); err != nil {
			return acquired, err
		}
	}
	return acquired, nil
}

// steps are those of a round, in their order.
func (a *acquiring) steps() []func(context.Context, *acquisition) error {
	return []func(context.Context, *acquisition) error{
		a.takeProducer, a.noteEnd, a.beginTransaction, a.endTransaction, a.lookExactly,
	}
}

func (a *acquiring) takeProducer(ctx context.Context, acquired *acquisition) error {
	return a.onCoordinator(ctx, func() (err error) {
		acquired.identity, err = a.coordinator.initProducer(ctx)
		return cannotFence(err)
	})
}

// noteEnd comes before the transaction: the marker will stand behind the end
// noted here.
func (a *acquiring) noteEnd(ctx context.Context, acquired *acquisition) (err error) {
	acquired.endOffset, err = a.scan.offset(ctx, sarama.OffsetNewest)
	return err
}

func (a *acquiring) beginTransaction(ctx context.Context, acquired *acquisition) error {
	return a.onCoordinator(ctx, func() error {
		return a.coordinator.addPartition(ctx, acquired.identity, a.topic, a.partition)
	})
}

func (a *acquiring) endTransaction(ctx context.Context, acquired *acquisition) error {
	return a.onCoordinator(ctx, func() error {
		return a.coordinator.abort(ctx, acquired.identity)
	})
}

// lookExactly waits for the marker and finds the tail in front of it.
func (a *acquiring) lookExactly(ctx context.Context, acquired *acquisition) error {
	awaiting, cancel := context.WithTimeoutCause(ctx, markerTimeout, errNoMarker)
	defer cancel()
	marker, err := a.scan.awaitMarker(awaiting, acquired.endOffset, acquired.identity)
	if code, _ := codeOf(err); code == sarama.ErrTopicAuthorizationFailed {
		return a.goBlind(acquired)
	}
	if err != nil {
		return err
	}
	acquired.logStart = marker.logStart
	if acquired.tail = marker.tail; acquired.tail == nil {
		if acquired.tail, err = a.tailBefore(ctx, bounds{acquired.logStart, acquired.endOffset}); err != nil {
			return err
		}
	}
	if t := acquired.tail; t != nil && t.producerID != acquired.producerID {
		if acquired.tail, err = a.lookAgain(ctx, *t, marker.offset); err != nil {
			return err
		}
	}
	return a.checkAcknowledged(ctx, bounds{acquired.logStart, marker.offset}, acquired.tail)
}

// tailBefore finds the tail. Records that cannot be read hide it: then nothing is
// skipped, which costs duplicates and loses nothing.
func (a *acquiring) tailBefore(ctx context.Context, in bounds) (*tail, error) {
	if a.origin == "" {
		return nil, nil
	}
	found, err := a.scan.before(ctx, in.start, in.end)
	if errors.Is(err, errUnreadable) {
		a.log.Warn("the end of the partition cannot be read, what is there already is published again", "error", err)
		return nil, nil
	}
	return found, err
}

// lookAgain deals with a tail that was written under another producer id, before
// the coordinator forgot the transactional id, or by one who did with less: our
// epoch does not shut its writer out. What that one still has under way is waited
// for.
func (a *acquiring) lookAgain(ctx context.Context, found tail, from int64) (*tail, error) {
	a.log.Warn("the last record was written under another producer id, so its writer is not shut out; looking again after the produce timeout",
		"offset", found.offset, "producer_id", found.producerID, "wait", produceTimeout)
	if err := sleep(ctx, produceTimeout); err != nil {
		return nil, err
	}
	now, err := a.scan.bounds(ctx)
	if err != nil {
		return nil, err
	}
	later, err := a.tailBefore(ctx, bounds{max(from, now.start), now.end})
	if err != nil || later == nil {
		return &found, err
	}
	return later, nil
}

// checkAcknowledged compares what the partition holds with what the brokers
// acknowledged before.
func (a *acquiring) checkAcknowledged(ctx context.Context, now bounds, found *tail) error {
	known := a.acknowledged
	if known == nil || known.offset < now.start {
		return nil
	}
	lost := &lostDataError{a.topic, a.partition, *known, now.end}
	if now.end <= known.offset {
		return lost
	}
	if a.origin == "" {
		return nil // records have no position by which they could be told
	}
	if found != nil && found.offset == known.offset && found.position == known.position {
		return nil
	}
	position, present, err := a.scan.at(ctx, known.offset)
	if errors.Is(err, errUnreadable) {
		return nil
	}
	if err == nil && present && position != known.position {
		return lost
	}
	return err
}

// retry decides about an error of the partition's leader: nil to try again, after
// a pause.
func (a *acquiring) retry(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	code, _ := codeOf(err)
	if code == sarama.ErrOffsetOutOfRange {
		return err
	}
	if classify(err).class == classOperator && !a.exists(ctx, code) {
		return err
	}
	a.tell(err)
	return a.pause.wait(ctx)
}

// exists reports whether code 3 came from a broker that does not know the topic
// yet, while others do, or may do.
func (a *acquiring) exists(ctx context.Context, code sarama.KError) bool {
	if code != sarama.ErrUnknownTopicOrPartition {
		return false
	}
	topic, err := a.cluster.topic(ctx, a.topic)
	if err != nil {
		var missing *createError
		answer, _ := codeOf(err)
		return answer != sarama.ErrUnknownTopicOrPartition && !errors.As(err, &missing)
	}
	return a.partition < topic.partitions
}

// tell reports a failed attempt.
func (a *acquiring) tell(err error) {
	if a.fault != nil {
		a.fault(err)
	}
}

// sleep waits for d, or returns the cause when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package publisher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/IBM/sarama"
)

const (
	// minRetryPause and maxRetryPause bound the pause before a batch is sent
	// again.
	minRetryPause = 10 * time.Millisecond
	maxRetryPause = time.Second
	// operatorPause is the pause when a person has to act first.
	operatorPause = 3 * time.Second
	// maxRefusals is how many events in a row a topic may refuse for the same
	// reason before the topic is held to be at fault, and not the events.
	maxRefusals = 20
)

// answered takes in what became of a request.
func (s *session) answered(sn *sender, req *request, out outcome) {
	sn.inFlight--
	if out.err != nil && !out.unsent {
		s.distrust(sn)
	}
	for _, sh := range req.shipments {
		s.held -= sentBytes(sh.batch)
		sh.batch.reading--
		if sh.generation != sh.partition.generation {
			continue // given up meanwhile; what became of it is found by looking
		}
		s.settleShipment(sh, out)
	}
}

// distrust closes the other connection to a broker after one has failed, unless
// something is under way on it: what has silenced one has as likely silenced
// both, and to find that out would take another readTimeout.
func (s *session) distrust(failed *sender) {
	other := s.senders[senderKey{broker: failed.broker, retry: !failed.retry}]
	if other != nil && other.inFlight == 0 {
		other.abort()
	}
}

func (s *session) settleShipment(sh shipment, out outcome) {
	p, b := sh.partition, sh.batch
	if out.err != nil {
		s.unanswered(p, b, out)
		return
	}
	block := out.response.GetBlock(sh.topic, sh.id)
	if block == nil {
		s.unanswered(p, b, outcome{err: sarama.ErrIncompleteResponse})
		return
	}
	if block.Err == sarama.ErrNoError {
		s.succeed(p, b, block.Offset)
		return
	}
	s.refused(p, b, block.Err)
}

// succeed takes the acknowledged head off the queue.
func (s *session) succeed(p *partition, b *batch, offset int64) {
	p.busy = false
	p.lastAcked = b.last()
	if offset >= 0 {
		s.acked[p.key()] = acknowledged{offset: offset + int64(len(b.records)) - 1, position: b.last()}
	}
	p.topic.refusals = 0
	s.recovered(p)
	s.blameless(p)
	s.acknowledge(b.records)
	now := time.Now()
	p.lastUsed = now
	s.metrics.acknowledged(b.records, now)
	s.progress.acknowledged(len(b.records), now, b.last().CommitTime)
	s.release(b)
	p.pop()
	s.memory.give(b)
	s.advance(p)
}

// unanswered deals with a request that failed as a whole. What became of it is
// not known, unless it was never sent.
func (s *session) unanswered(p *partition, b *batch, out outcome) {
	if errors.Is(out.err, errNotProved) {
		s.again(p, 0)
		return
	}
	var unencodable sarama.PacketEncodingError
	if errors.As(out.err, &unencodable) {
		s.refusedAsPoison(p, b, ReasonTooLarge, out.err)
		return
	}
	b.doubt = b.doubt || !out.unsent
	s.metrics.errors.WithLabelValues(classify(out.err).class.String()).Inc()
	s.findLeaders(p.topic)
	if classify(out.err).class == classOperator {
		s.shutOut(p, out.err)
		s.again(p, operatorPause)
		return
	}
	s.troubled(p, "produce request failed and is sent again", out.err, b.firstAttempt)
	s.again(p, pause(b.attempts))
}

// refused deals with a broker's refusal of a batch.
func (s *session) refused(p *partition, b *batch, code sarama.KError) {
	err := refusal(code)
	b.doubt = b.doubt || inDoubt(err)
	class := classify(err).class
	if code == sarama.ErrInvalidTimestamp && s.cfg.Timestamp == TimestampCreatedAt {
		class = classPoison // the application has made it
	}
	if code == sarama.ErrUnknownTopicOrPartition {
		s.lookUp(p.topic)
		if time.Since(b.firstAttempt) < unknownTopicGrace {
			class = classTransient
		}
	}
	s.metrics.errors.WithLabelValues(class.String()).Inc()
	switch class {
	case classState:
		s.log.Warn("partition is acquired again", "topic", p.topic.name, "partition", p.id, "error", err)
		s.blame(p, classState, err, b.firstAttempt)
		p.acquired = false
		p.busy = false
		s.advance(p)
	case classPoison:
		s.refusedAsPoison(p, b, reasonOf(code), err)
	case classOperator:
		s.stand(p, err)
		s.findLeaders(p.topic)
		s.again(p, operatorPause)
	default:
		s.troubled(p, "batch was refused for now and is sent again", err, b.firstAttempt)
		s.findLeaders(p.topic)
		s.again(p, pause(b.attempts))
	}
}

// refusedAsPoison finds the event in a batch that can never be published. A
// batch of several is split, down to the event.
func (s *session) refusedAsPoison(p *partition, b *batch, reason Reason, err error) {
	p.busy = false
	switch {
	case b.doubt && !p.blind:
		// An earlier attempt may have been written: look first.
		p.acquired = false
	case reason == ReasonInvalidRecord && !p.triedPlain && p.sequence == int32(len(b.records)):
		s.tryPlain(p, b)
		return
	case len(b.records) > 1:
		left, right := b.split()
		p.queue = append([]*batch{left, right}, p.queue[1:]...)
	case s.topicRefuses(p.topic, reason):
		s.stand(p, fmt.Errorf("the topic has refused %d events in a row: %w", maxRefusals, err))
		p.busy = true
		s.again(p, operatorPause)
		return
	case reason == ReasonTooLarge:
		s.tooLarge(p, b, err)
		return
	default:
		b.poison = &Poison{Reason: reason, Err: err}
	}
	s.advance(p)
}

// tooLarge makes poison of the record of b, once it is known what the limit
// is: whoever finds the dead letter has to know how far to raise it.
func (s *session) tooLarge(p *partition, b *batch, err error) {
	p.busy = true
	generation := p.generation
	s.help(func() {
		limit := s.cluster.maxMessageBytes(s.ctx, p.topic.name)
		s.report(func() {
			if p.generation != generation {
				return
			}
			p.busy = false
			b.poison = tooLarge(b.bytes, p.topic.name, limit, err)
			s.advance(p)
		})
	})
}

// reasonOf names the reason for a refusal of class poison.
func reasonOf(err sarama.KError) Reason {
	if err == sarama.ErrMessageSizeTooLarge || err == sarama.ErrMessageSetSizeTooLarge {
		return ReasonTooLarge
	}
	if err == sarama.ErrInvalidTimestamp {
		return ReasonInvalidTimestamp
	}
	return ReasonInvalidRecord
}

// topicRefuses counts refusals for the same reason and reports whether there
// have been too many without a success.
func (s *session) topicRefuses(t *topic, reason Reason) bool {
	if t.lastReason != reason {
		t.lastReason, t.refusals = reason, 0
	}
	if t.refusals >= maxRefusals {
		return true
	}
	t.refusals++
	return false
}

// again has p looked at once d has passed; until then it stays busy.
func (s *session) again(p *partition, d time.Duration) {
	p.busy = true
	generation := p.generation
	s.after(d, func() {
		if p.generation == generation {
			p.busy = false
			s.advance(p)
		}
	})
}

// pause returns the pause before the next attempt after n of them, somewhat at
// random, so that partitions which failed together do not come back together.
func pause(n int) time.Duration {
	d := min(minRetryPause<<min(n, 10), maxRetryPause)
	return d/2 + rand.N(d/2)
}

package publisher

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
)

const (
	// acquiredFor is how long an acquisition is left alone while the partition
	// is idle. Coordinators forget a transactional id that is not used for
	// transactional.id.expiration.ms, 7 days by default.
	acquiredFor = 24 * time.Hour
	// letGoAfter is when an idle partition is no longer kept acquired.
	letGoAfter = 7 * 24 * time.Hour
	// slotTime is how long an acquisition counts against maxAcquiring. One that
	// cannot be finished must not keep the others waiting.
	slotTime = 5 * time.Second
)

// slots hands out the right to acquire, first come, first served. It belongs to
// the loop.
type slots struct {
	used    int
	waiting []func()
}

func (l *slots) take(f func()) {
	if l.used == maxAcquiring {
		l.waiting = append(l.waiting, f)
		return
	}
	l.used++
	f()
}

func (l *slots) give() {
	l.used--
	if len(l.waiting) > 0 {
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.take(next)
	}
}

// mustLook reports whether the head of p may be in the partition and it is too
// late to leave that to the broker: brokers forget the sequence numbers of a
// producer by the timestamps of its records, and ours are commit times.
func (s *session) mustLook(p *partition, b *batch) bool {
	if !b.doubt || p.blind {
		return false
	}
	limit := s.producerExpiry / 2
	return time.Since(b.newestTimestamp()) > limit || time.Since(b.firstAttempt) > limit
}

// acquire makes p ours and finds out what it holds. Whatever was under way is
// given up.
func (s *session) acquire(p *partition) {
	p.busy = true
	p.acquired = false
	p.generation++
	generation := p.generation
	s.acquiring.take(func() {
		if p.generation != generation || s.err != nil {
			s.acquiring.give()
			return
		}
		s.startAcquiring(p, generation)
	})
}

func (s *session) startAcquiring(p *partition, generation uint64) {
	request := s.acquireRequest(p)
	given := false
	give := func() {
		if !given {
			given = true
			s.acquiring.give()
		}
	}
	if p.leader != noLeader {
		s.sender(senderKey{broker: p.leader}) // its connection will be needed
	}
	s.after(slotTime, give)
	s.help(func() {
		a, err := s.take(request)
		s.report(func() {
			give()
			if p.generation == generation {
				s.taken(p, a, err)
			}
		})
	})
}

func (s *session) acquireRequest(p *partition) acquireRequest {
	begun, generation := time.Now(), p.generation
	request := acquireRequest{
		transactionalID: fmt.Sprintf("outbox-cdc.%s.%s.%s.%d", s.in.SystemID, s.in.Slot, p.topic.name, p.id),
		topic:           p.topic.name,
		topicID:         p.topic.id,
		partition:       p.id,
		eventIDHeader:   s.cfg.Headers.nameOf(headerID),
		positionHeader:  s.cfg.Headers.nameOf(headerPosition),
		plain:           p.plain,
		stillOurs:       s.proof.renew,
		fault: func(err error) {
			s.report(func() {
				if p.generation == generation {
					s.troubled(p, "partition cannot be acquired yet", err, begun)
				}
			})
		},
	}
	if s.cfg.PositionHeaders {
		request.origin = string(p.topic.origin)
	}
	if last, ok := s.acked[p.key()]; ok {
		request.acknowledged = &last
	}
	return request
}

// take runs beside the loop: the ownership query, the operation, and a check of
// the tail against the server's position, read after the scan.
func (s *session) take(request acquireRequest) (acquisition, error) {
	if !s.proof.fresh() {
		if err := s.proof.renew(s.ctx); err != nil {
			return acquisition{}, err
		}
	}
	a, err := s.cluster.acquire(s.ctx, request)
	if err != nil || a.tail == nil {
		return a, err
	}
	end, err := s.walEndBehind(a.tail.position.CommitLSN)
	if err != nil {
		return a, fmt.Errorf("ask for the server's position: %w", err)
	}
	if a.tail.position.CommitLSN >= end {
		s.log.Warn("the last record in the partition is from a history that this server does not have; it is not believed, duplicates are possible",
			"topic", request.topic, "partition", request.partition, "position", a.tail.position.String(), "server_position", end.String())
		a.tail = nil
	}
	return a, nil
}

// walEndBehind returns an end of the server's log that is behind lsn, and the
// present one if there is none: the log only grows while the session lasts.
func (s *session) walEndBehind(lsn pglogrepl.LSN) (pglogrepl.LSN, error) {
	if known := pglogrepl.LSN(s.walEnd.Load()); lsn < known {
		return known, nil
	}
	end, err := s.in.Owner.WALEnd(s.ctx)
	if err == nil {
		s.walEnd.Store(uint64(end)) // any of several answers will do
	}
	return end, err
}

// taken takes in the end of an acquisition.
func (s *session) taken(p *partition, a acquisition, err error) {
	var lost *lostDataError
	var required *fenceRequiredError
	switch {
	case err == nil:
	case errors.As(err, &lost):
		s.log.Error("acknowledged records are no longer in the partition", "topic", p.topic.name, "partition", p.id, "error", err)
		delete(s.acked, p.key())
		s.fail(fmt.Errorf("%w: %w", ErrStartOver, err))
		return
	case errors.Is(err, errTopicReplaced):
		s.lookUp(p.topic)
		s.again(p, operatorPause)
		return
	case errors.As(err, &required):
		s.fail(fmt.Errorf("%w: %w", ErrFence, err))
		return
	case classify(err).class == classOperator:
		if atTheDoor(err) {
			s.shutOut(p, err)
		} else {
			s.stand(p, err)
		}
		s.findLeaders(p.topic)
		s.again(p, operatorPause)
		return
	default:
		s.fail(fmt.Errorf("acquire partition %d of topic %q: %w", p.id, p.topic.name, err))
		return
	}
	p.busy = false
	p.acquired = true
	p.acquiredAt = time.Now()
	p.producer = a.identity
	p.sequence = 0
	p.blind = a.mode == acquiredBlind || !s.cfg.PositionHeaders
	s.recovered(p)
	s.metrics.acquisitions.WithLabelValues(a.mode.String()).Inc()
	s.sayMode(p, a)
	for _, b := range p.queue {
		b.reset()
	}
	if !p.blind {
		s.weigh(p, a.tail)
	}
	if len(p.queue) == 0 {
		s.blameless(p)
	}
	s.advance(p)
}

// tryPlain sends the first batch behind an acquisition once more under a plain
// producer id, after the broker has called it invalid: perhaps it is the
// transactional id behind the producer that the broker does not take. The
// acquisition still holds: its marker has shut out whoever wrote before. But no
// marker of a successor will shut out a plain id, so it is made sure first that
// there is none.
func (s *session) tryPlain(p *partition, b *batch) {
	p.busy = true
	p.triedPlain = true
	generation := p.generation
	s.help(func() {
		var id identity
		err := s.proof.renew(s.ctx)
		if err == nil {
			id, err = s.cluster.plainProducer(s.ctx)
		}
		s.report(func() {
			if p.generation != generation {
				return
			}
			p.busy = false
			p.acquired = err == nil
			p.plain = err == nil
			p.producer = id
			p.sequence = 0
			b.reset()
			s.advance(p)
		})
	})
}

// sayMode says once per topic that the guarantee is less than exact.
func (s *session) sayMode(p *partition, a acquisition) {
	if a.mode == acquiredExact || p.topic.mode == a.mode {
		return
	}
	p.topic.mode = a.mode
	s.log.Warn("partitions are acquired in a weaker way", "topic", p.topic.name, "guarantee", a.mode.guarantee(), "reason", a.reason)
}

// keepAcquired acquires idle partitions again before their transactional ids
// are forgotten, and lets go of those that have been idle for very long.
func (s *session) keepAcquired(p *partition) {
	switch {
	case !p.acquired || !p.idle() || time.Since(p.acquiredAt) < acquiredFor:
	case time.Since(p.lastUsed) > letGoAfter:
		p.acquired = false
	default:
		s.acquire(p)
	}
}

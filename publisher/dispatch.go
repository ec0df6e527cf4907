package publisher

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// errLeaderless keeps a partition waiting that nobody leads.
var errLeaderless = fmt.Errorf("the partition has no leader: %w", refusal(sarama.ErrLeaderNotAvailable))

// enqueue lines p up for the connection to its leader.
func (s *session) enqueue(p *partition) {
	if p.leader == noLeader {
		s.blame(p, classTransient, errLeaderless, time.Now())
		s.findLeaders(p.topic)
		return
	}
	p.queued = true
	sn := s.sender(senderKey{broker: p.leader, retry: p.queue[0].attempts > 0})
	sn.ready = append(sn.ready, p)
}

// dispatch sends what is lined up, as far as the connections have room. Without
// a fresh proof that the slot is ours nothing is sent.
func (s *session) dispatch() {
	// Lining up may add a sender at the end.
	for i := 0; i < len(s.order); i++ {
		sn := s.order[i]
		for len(sn.ready) > 0 && sn.inFlight < maxInFlight && sn.worthSending() {
			if !s.proof.fresh() {
				s.proof.want()
				return
			}
			if req := s.fillRequest(sn); len(req.shipments) > 0 {
				sn.inFlight++
				sn.requests <- req
			}
		}
	}
}

// fillRequest takes the heads of partitions that are lined up, until the request
// is large enough. A batch that is being retried goes alone.
func (s *session) fillRequest(sn *sender) *request {
	req := &request{}
	for len(sn.ready) > 0 {
		p := sn.ready[0]
		if p.leader != sn.broker || len(p.queue) == 0 {
			sn.ready = sn.ready[1:]
			p.queued = false
			s.advance(p)
			continue
		}
		b := p.queue[0]
		if len(req.shipments) > 0 && (sn.retry || req.bytes+b.bytes > maxRequestBytes) {
			break
		}
		sn.ready = sn.ready[1:]
		p.queued = false
		req.shipments = append(req.shipments, s.ship(p, b))
		req.bytes += b.bytes
	}
	return req
}

// ship puts the head of p under way.
func (s *session) ship(p *partition, b *batch) shipment {
	if !b.numbered {
		b.number(p.producer, p.sequence)
		p.sequence = advanceSequence(p.sequence, len(b.records))
	}
	if b.attempts == 0 {
		b.firstAttempt = time.Now()
	}
	if b.stamp.sent == 0 {
		b.stamp = stamp{how: s.cfg.Timestamp, sent: b.firstAttempt.UnixMicro()}
	}
	b.attempts++
	b.reading++
	p.busy = true
	sh := shipment{
		partition: p, batch: b, generation: p.generation,
		topic: p.topic.name, id: p.id, producer: b.producer, sequence: b.sequence, records: b.records, bytes: b.bytes, stamp: b.stamp,
	}
	if s.cfg.PositionHeaders {
		sh.origin = p.topic.origin
	}
	s.held += sentBytes(b)
	return sh
}

// sentBytes is what a batch costs more while it is under way: its encoded form.
func sentBytes(b *batch) int64 { return int64(b.bytes) }

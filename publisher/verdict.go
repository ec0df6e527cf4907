package publisher

import (
	"fmt"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// A tail says that every event of its partition at or before its position is in
// the partition already. It is believed when the row at that position comes by
// in the stream, for this partition, with the same id and commit time. Until
// then what it covers is skipped and stays unacknowledged: a skip must never
// become a loss.

// covered decides about an event of a partition with a tail that has yet to
// prove itself, and reports whether the event was skipped.
func (s *session) covered(p *partition, r record) bool {
	switch order := r.position.Compare(p.tail.position); {
	case order > 0:
		// settle has dealt with a tail on whose word something was skipped.
		p.tail = nil
		return false
	case order == 0 && !p.tail.is(r):
		s.refute(p, "another event stands at its position")
		return true
	case order == 0:
		p.skip(r.segment)
		s.prove(p, r.position)
		return true
	}
	p.skip(r.segment)
	s.await(p)
	return true
}

// is reports whether r is the record that the tail was made from.
func (t *tail) is(r record) bool {
	return t.position == r.position && t.eventID == string(eventID(r.row))
}

// prove acknowledges what was skipped: the tail has proved itself.
func (s *session) prove(p *partition, position decoder.Position) {
	events := 0
	for _, run := range p.skipped {
		s.tracker.Ack(run.segment, run.events)
		events += run.events
	}
	s.metrics.recognised.Add(float64(events))
	s.progress.recognised.Add(uint64(events))
	s.progress.committed(position.CommitTime)
	s.log.Debug("events recognised in a partition", "topic", p.topic.name, "partition", p.id, "events", events)
	p.skipped = nil
	p.tail = nil
	p.lastAcked = position
	delete(s.proving, p)
	s.recognised += events
	if len(s.proving) == 0 {
		s.log.Info("events recognised in the partitions and not sent again", "events", s.recognised)
		s.recognised = 0
	}
	s.rested(p.topic)
}

// await notes that p waits for the row at its tail's position.
func (s *session) await(p *partition) {
	if len(s.proving) == 0 || p.tail.position.Compare(s.earliest) < 0 {
		s.earliest = p.tail.position
	}
	s.proving[p] = struct{}{}
}

// settle finds the tails that the stream has passed without their row.
func (s *session) settle() {
	if len(s.proving) == 0 || !s.passed(s.earliest) {
		return
	}
	waiting := s.proving
	s.proving = make(map[*partition]struct{})
	for p := range waiting {
		if s.passed(p.tail.position) {
			s.refute(p, "the stream has passed its position without it")
		} else {
			s.await(p)
		}
	}
}

// passed reports whether the stream is strictly beyond a position.
func (s *session) passed(position decoder.Position) bool {
	return s.lastEvent.Compare(position) > 0 || s.lastMarker > position.CommitLSN
}

// refute gives up a tail that was not borne out, and with it the session, since
// events were skipped on its word. They come again, and are sent.
func (s *session) refute(p *partition, why string) {
	s.disbelieve(p, p.tail, why)
	s.fail(fmt.Errorf("%w: partition %d of topic %q holds a record that this database did not write", ErrStartOver, p.id, p.topic.name))
}

// disbelieve remembers a tail that is not to be believed.
func (s *session) disbelieve(p *partition, t *tail, why string) {
	s.refuted[tailKey{p.key(), t.offset}] = true
	s.log.Warn("a record carries our headers and is not ours; what the partition holds is not recognised, duplicates are possible",
		"topic", p.topic.name, "partition", p.id, "offset", t.offset, "position", t.position.String(), "reason", why)
}

// weigh drops from the queue of p what a tail that was just found covers.
func (s *session) weigh(p *partition, found *tail) {
	switch {
	case found == nil || s.refuted[tailKey{p.key(), found.offset}]:
		return
	case found.position.Compare(p.lastAcked) <= 0:
		return // everything at or before it has been acknowledged
	case p.tail != nil && len(p.skipped) > 0 && found.position.Compare(p.tail.position) < 0:
		s.refute(p, "an earlier record has become the last one")
		return
	}
	switch {
	case p.queues(found):
		p.tail = found
		s.dropCovered(p)
		s.prove(p, found.position)
	case s.passed(found.position):
		if p.queuesUpTo(found.position) {
			s.disbelieve(p, found, "the stream has passed its position without it")
		}
	default:
		p.tail = found
		s.dropCovered(p)
	}
}

// dropCovered moves what the tail of p covers from its queue to the skipped
// events.
func (s *session) dropCovered(p *partition) {
	for len(p.queue) > 0 {
		b := p.queue[0]
		n := 0
		for n < len(b.records) && b.records[n].position.Compare(p.tail.position) <= 0 {
			p.skip(b.records[n].segment)
			b.bytes -= b.records[n].wireBytes()
			n++
		}
		if n > 0 {
			s.await(p)
		}
		if n < len(b.records) {
			s.records -= n
			b.records = b.records[n:]
			return
		}
		s.release(b)
		p.pop()
	}
}

// queues reports whether the very event of a tail waits in the queue.
func (p *partition) queues(t *tail) bool {
	for _, b := range p.queue {
		for _, r := range b.records {
			if order := r.position.Compare(t.position); order >= 0 {
				return order == 0 && t.is(r)
			}
		}
	}
	return false
}

// queuesUpTo reports whether an event at or before a position waits in the
// queue.
func (p *partition) queuesUpTo(position decoder.Position) bool {
	return len(p.queue) > 0 && p.queue[0].records[0].position.Compare(position) <= 0
}

// key names the partition beyond the session.
func (p *partition) key() partitionKey {
	return partitionKey{topic: p.topic.id, name: p.topic.name, partition: p.id}
}

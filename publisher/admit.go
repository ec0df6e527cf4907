package publisher

import (
	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// admit judges an event and puts it where it has to wait.
func (s *session) admit(row decoder.Row, position decoder.Position) {
	s.lastEvent = position
	if s.settle(); s.err != nil {
		return
	}
	if row.Relation().Unreadable {
		s.orphan(record{row: row, position: position, segment: s.tracker.Begin()}, "",
			poison(ReasonInvalidMessage, "the content of the logical message is not a JSON object with the fields of an event"))
		return
	}
	v := s.router.read(row)
	if !s.router.published(v) {
		s.metrics.filtered.Inc()
		return
	}
	r := record{row: row, position: position, segment: s.tracker.Begin()}
	name, unroutable := s.router.topic(v)
	if unroutable != nil {
		s.orphan(r, string(name), unroutable)
		return
	}
	verdict := s.router.judge(v)
	t := s.topic(name)
	if verdict != nil && verdict.nowhere {
		s.orphan(r, t.name, verdict)
		return
	}
	if !t.ready() && !s.owed(t, r, v) {
		s.hold(t.wait(r, verdict, &s.memory))
		return
	}
	s.place(t, r, v, verdict)
}

// owed reports whether a topic that is about to get more partitions has to see
// an event first: it is covered by a tail of the old ones, which has yet to
// prove itself.
func (s *session) owed(t *topic, r record, v *values) bool {
	if t.partitions == nil {
		return false
	}
	p, unplaceable := s.partition(t, r, v)
	return unplaceable == nil && len(p.skipped) > 0 && r.position.Compare(p.tail.position) <= 0
}

// partition returns the partition of an event whose row was read into v.
func (s *session) partition(t *topic, r record, v *values) (*partition, *Poison) {
	number, unplaceable := s.router.partition(v, r.position, len(t.partitions))
	return t.partitions[number], unplaceable
}

// place puts an event into the queue of its partition, unless it is there
// already as the tail tells. Its row was read into v; what happens behind that may
// read another one.
func (s *session) place(t *topic, r record, v *values, verdict *Poison) {
	p, unplaceable := s.partition(t, r, v)
	if unplaceable != nil {
		s.orphan(r, t.name, unplaceable)
		return
	}
	if p.tail != nil && s.covered(p, r) {
		return
	}
	s.hold(p.push(r, verdict, &s.memory))
	s.advance(p)
}

// hold counts an event that is held.
func (s *session) hold(bytes int64) {
	s.held += bytes
	s.records++
}

// release stops counting a batch.
func (s *session) release(b *batch) {
	s.held -= b.held
	s.records -= len(b.records)
}

// acknowledge counts the records of a batch as acknowledged.
func (s *session) acknowledge(records []record) {
	for len(records) > 0 {
		n := 1
		for n < len(records) && records[n].segment == records[0].segment {
			n++
		}
		s.tracker.Ack(records[0].segment, n)
		records = records[n:]
	}
}

// advance does the next thing that p needs, if there is one.
func (s *session) advance(p *partition) {
	if p.busy || p.queued {
		return
	}
	if len(p.queue) == 0 {
		s.rested(p.topic)
		return
	}
	head := p.queue[0]
	switch {
	case !p.acquired || s.mustLook(p, head):
		s.acquire(p)
	case head.poison != nil:
		s.setAside(p)
	default:
		s.enqueue(p)
	}
}

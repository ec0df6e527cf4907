package publisher

import (
	"fmt"
	"time"
)

// orphan is a dead letter without a partition: its topic is not valid, so there
// is nothing that it would have to be in order with.
type orphan struct {
	record record
	letter DeadLetter
	held   int64
}

// orphan sets aside an event that has no partition.
func (s *session) orphan(r record, topicName string, why *Poison) {
	b := &batch{}
	s.hold(b.add(r, &s.memory))
	r = b.records[0]
	s.orphans = append(s.orphans, orphan{
		record: r, held: b.held,
		letter: DeadLetter{Position: r.position, Row: r.row, Topic: topicName, Poison: why},
	})
	s.storeOrphan()
}

// storeOrphan stores the oldest orphan, one at a time.
func (s *session) storeOrphan() {
	if s.storing || len(s.orphans) == 0 {
		return
	}
	first := s.orphans[0]
	if s.halts(first.letter) {
		return
	}
	s.storing = true
	s.store(first.letter, func() {
		s.storing = false
		s.orphans = s.orphans[1:]
		s.acknowledge([]record{first.record})
		s.held -= first.held
		s.records--
		s.storeOrphan()
	})
}

// setAside deals with the poison event at the head of p. Nothing behind it is
// sent before its dead letter is stored.
func (s *session) setAside(p *partition) {
	b := p.queue[0]
	r := b.records[0]
	letter := DeadLetter{Position: r.position, Row: r.row, Topic: p.topic.name, Poison: b.poison}
	if s.halts(letter) {
		return
	}
	p.busy = true
	generation := p.generation
	s.store(letter, func() {
		if p.generation != generation {
			return
		}
		p.busy = false
		if b.numbered {
			// Its sequence number is gone with it; a number is never given
			// to another record.
			p.acquired = false
			p.plain = false
		}
		p.lastAcked = r.position
		s.recovered(p)
		s.blameless(p)
		s.acknowledge(b.records)
		s.release(b)
		p.pop()
		s.advance(p)
	})
}

// halts ends the session if poison events are not to be set aside.
func (s *session) halts(letter DeadLetter) bool {
	if s.cfg.OnPoison != PolicyHalt {
		return false
	}
	s.fail(fmt.Errorf("%w: event %q at position %s for topic %q: %w; remove the cause, or run with --on-poison dead-letter to set it aside",
		ErrHalted, eventID(letter.Row), letter.Position, letter.Topic, letter.Poison))
	return true
}

// store stores a dead letter, however long it takes, and then runs done.
func (s *session) store(letter DeadLetter, done func()) {
	begun := time.Now()
	s.help(func() {
		retry := backoff{pause: 100 * time.Millisecond, limit: 5 * time.Second}
		for {
			err := s.in.DeadLetter(s.ctx, letter)
			if err == nil {
				break
			}
			s.report(func() {
				s.troubles.note(troubleKey{kind: troubleDeadLetters}, verdict{classTransient, "dead letters cannot be stored", ""},
					fmt.Errorf("dead letters cannot be stored: %w", err), begun)
				if s.sayOnce("dead letter") {
					s.log.Error("dead letter cannot be stored and is tried again", "position", letter.Position.String(), "error", err)
				}
			})
			if retry.wait(s.ctx) != nil {
				return
			}
		}
		s.report(func() {
			s.troubles.clear(troubleKey{kind: troubleDeadLetters})
			s.progress.deadLettered.Add(1)
			s.metrics.setAside(letter.Poison.Reason)
			s.log.Warn("event set aside as a dead letter", "event_id", string(eventID(letter.Row)), "position", letter.Position.String(),
				"topic", letter.Topic, "reason", letter.Poison.Reason, "error", letter.Poison.Err, "bytes", letter.Row.Bytes())
			done()
		})
	})
}

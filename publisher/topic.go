package publisher

import (
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

// topic is one topic for one session. Until its partitions are known, and
// while their number changes, its events wait in one queue.
type topic struct {
	name       string
	id         sarama.Uuid
	partitions []*partition // by id; nil until the topic is known
	origin     []byte

	// waiting holds events that have no partition yet, in stream order.
	waiting []*batch
	// grown is what the brokers said when they named more partitions than the
	// events in flight were routed by. The topic switches over to it when
	// nothing of the old count is left.
	grown *topicMetadata

	// looking and refreshing say that the brokers are being asked about the
	// topic, or for its leaders.
	looking, refreshing bool
	// failing is since when the topic cannot be looked up, zero if it can.
	failing time.Time
	// mode is how its partitions are acquired.
	mode acquireMode

	// refusals counts the events that the topic refused for good in a row, for
	// lastReason.
	refusals   int
	lastReason Reason
}

// ready reports whether events can go to partitions.
func (t *topic) ready() bool { return t.partitions != nil && t.grown == nil }

// wait queues an event that has no partition yet and returns the memory that
// it took, from m.
func (t *topic) wait(r record, why *Poison, m *memory) int64 {
	if n := len(t.waiting); n > 0 && why == nil && t.waiting[n-1].poison == nil && !t.waiting[n-1].full(r.wireBytes()) {
		return t.waiting[n-1].add(r, m)
	}
	b := &batch{poison: why}
	t.waiting = append(t.waiting, b)
	return b.add(r, m)
}

// idle reports whether nothing is left that was routed by the current number
// of partitions.
func (t *topic) idle() bool {
	return !slices.ContainsFunc(t.partitions, func(p *partition) bool { return !p.idle() })
}

// led reports whether every partition has a leader.
func (t *topic) led() bool {
	return !slices.ContainsFunc(t.partitions, func(p *partition) bool { return p.leader == noLeader })
}

// lay sets up the partitions of a topic and lets the waiting events in.
func (s *session) lay(t *topic, m topicMetadata) {
	s.troubles.clearPartitions(t.name)
	t.partitions = make([]*partition, m.partitions)
	t.origin = s.router.originOf(int(m.partitions))
	for i := range t.partitions {
		t.partitions[i] = &partition{topic: t, id: int32(i), leader: m.leader(int32(i))}
	}
	waiting := t.waiting
	t.waiting = nil
	for _, b := range waiting {
		s.release(b)
		for _, r := range b.records {
			s.place(t, r, s.router.read(r.row), b.poison)
		}
	}
}

// rested switches a topic over to more partitions once nothing is left that was
// routed by their old number.
func (s *session) rested(t *topic) {
	if t.grown == nil || !t.idle() {
		return
	}
	m := *t.grown
	t.grown = nil
	for _, p := range t.partitions {
		p.generation++
	}
	s.lay(t, m)
}

// recall gives up what is under way to a topic that was deleted and made again,
// and puts all its events back to waiting.
func (s *session) recall(t *topic) {
	type held struct {
		record
		why *Poison
	}
	var records []held
	for _, p := range t.partitions {
		p.generation++
		for _, b := range p.queue {
			s.release(b)
			for _, r := range b.records {
				records = append(records, held{r, b.poison})
			}
		}
		p.queue = nil
		delete(s.proving, p)
		if len(p.skipped) > 0 {
			s.fail(fmt.Errorf("%w: topic %q is gone with events that were recognised in it", ErrStartOver, t.name))
		}
	}
	slices.SortFunc(records, func(a, b held) int { return a.position.Compare(b.position) })
	behind := t.waiting
	t.waiting = nil
	for _, r := range records {
		s.hold(t.wait(r.record, r.why, &s.memory))
	}
	t.waiting = append(t.waiting, behind...)
	t.grown = nil
}

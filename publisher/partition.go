package publisher

import (
	"time"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// partition is one partition of a topic for one session: a FIFO of batches, of
// which the head alone may be under way. Nothing overtakes: whatever happens
// to the head, it stays there until it is acknowledged, skipped or set aside.
type partition struct {
	topic  *topic
	id     int32
	leader int32 // broker id, noLeader if not known

	queue []*batch
	// queued says that the head waits for its turn on the connection to the
	// leader. It may still grow.
	queued bool
	// busy says that something is being done about the partition, and nothing
	// else may be begun: the head is under way, or waits out a pause, or is
	// being set aside, or the partition is being acquired.
	busy bool
	// generation changes when whatever is under way has been given up; reports
	// of an older one are ignored.
	generation uint64

	// producer and sequence, that of the next record, are valid while acquired.
	acquired   bool
	acquiredAt time.Time
	producer   identity
	sequence   int32
	// blind says that a look at the partition cannot settle a doubt: nothing
	// of ours can be read or recognised there.
	blind bool
	// plain says that the broker takes batches of a plain producer id alone;
	// triedPlain that this was found out, or that it is not so.
	plain, triedPlain bool

	// lastAcked is the newest event of this session acknowledged here.
	lastAcked decoder.Position
	lastUsed  time.Time

	// tail is the newest record of ours that was found in the partition, while
	// the stream may still deliver events at or before it.
	tail *tail
	// skipped are the events dropped on the word of tail. They count as
	// acknowledged when the row at the tail's position has come by.
	skipped []skip

	// standing is why the partition stands still and a person must act, nil
	// while it does not.
	standing error
	// blamed says that the register of troubles has it.
	blamed bool
	// shortage is what is known of its replicas while too few of them are in
	// sync, lookedInto when they were asked for last.
	shortage   *shortOfReplicasError
	lookedInto time.Time
}

// skip is a run of skipped events of one segment.
type skip struct {
	segment checkpoint.Segment
	events  int
}

// push queues a record and returns the memory that it took, from m.
func (p *partition) push(r record, poison *Poison, m *memory) int64 {
	if b := p.open(r); b != nil && poison == nil {
		return b.add(r, m)
	}
	b := &batch{poison: poison}
	p.queue = append(p.queue, b)
	return b.add(r, m)
}

// open returns the batch that r may join, if there is one.
func (p *partition) open(r record) *batch {
	n := len(p.queue)
	if n == 0 || n == 1 && p.busy {
		return nil
	}
	b := p.queue[n-1]
	if b.numbered || b.poison != nil || b.full(r.wireBytes()) {
		return nil
	}
	return b
}

// pop removes the head.
func (p *partition) pop() {
	p.queue[0] = nil
	p.queue = p.queue[1:]
}

// skip notes that an event was dropped on the word of the tail.
func (p *partition) skip(s checkpoint.Segment) {
	if n := len(p.skipped); n > 0 && p.skipped[n-1].segment == s {
		p.skipped[n-1].events++
		return
	}
	p.skipped = append(p.skipped, skip{segment: s, events: 1})
}

// idle reports whether nothing of the partition is queued, under way, or
// waiting for a proof.
func (p *partition) idle() bool { return len(p.queue) == 0 && len(p.skipped) == 0 && !p.busy }

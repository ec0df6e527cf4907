// Package checkpoint decides how far the replication slot may be confirmed,
// and keeps the record from which a gap is detected.
//
// Acknowledgements arrive in any order; the slot understands a single
// position. A position is confirmed once every event ahead of it in the stream
// has been acknowledged, and not a moment sooner.
package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"
)

// Tracker turns acknowledgements in any order into one contiguous position. It
// counts by segment, the events between two markers of the stream, so that a
// transaction of a million rows costs as much as one of a single row. What it
// holds grows with the unfinished segments alone: a partition that stands still
// with one event does not make it remember what the others get done behind it.
// It belongs to one goroutine.
type Tracker struct {
	// segments[head:] are in stream order. The first is unfinished, the last one
	// is open: no marker has followed it yet.
	segments []segment
	head     int
	// finished is the number of segments that hold nothing that the rest could
	// not say: those in front of head, and complete ones behind it.
	finished int
	// pending is the number of events begun and not acknowledged.
	pending int
	// confirmed is the marker behind the newest segment that is complete with
	// all before it.
	confirmed Mark
}

// Segment names the events between two markers.
type Segment uint64

// Mark is a position of the stream.
type Mark struct {
	// LSN is complete once every event ahead of the mark is acknowledged.
	LSN pglogrepl.LSN
	// CommitTime is when the newest transaction ahead of the mark that held an
	// event was committed; zero if there was none.
	CommitTime time.Time
}

type segment struct {
	number  Segment
	pending int
	begun   bool // whether it holds an event
	mark    Mark
}

// NewTracker returns a tracker at the start of a session, with nothing begun.
func NewTracker() *Tracker { return &Tracker{segments: make([]segment, 1)} }

// Pending returns the number of events begun and not yet acknowledged.
func (t *Tracker) Pending() int { return t.pending }

// Confirmed returns the newest mark with every event ahead of it acknowledged;
// the zero Mark before the first.
func (t *Tracker) Confirmed() Mark { return t.confirmed }

// Begin admits the next event of the stream and returns the segment that it is
// to be acknowledged in.
func (t *Tracker) Begin() Segment {
	open := &t.segments[len(t.segments)-1]
	open.pending++
	open.begun = true
	t.pending++
	return open.number
}

// Mark records that m follows every event begun so far.
func (t *Tracker) Mark(m Mark) {
	last := len(t.segments) - 1
	if !t.segments[last].begun {
		// Nothing since the previous mark: this one stands for both.
		if last == t.head {
			t.confirm(m)
			return
		}
		t.segments[last-1].mark.replace(m)
		return
	}
	closed := &t.segments[last]
	closed.mark = m
	if closed.pending == 0 {
		t.finished++
	}
	t.segments = append(t.segments, segment{number: closed.number + 1})
	t.advance()
}

// Ack records the acknowledgement of n events of s, each of which was begun
// and is acknowledged once. It panics when more are acknowledged than begun:
// a position that was confirmed too early cannot be taken back.
func (t *Tracker) Ack(s Segment, n int) {
	acknowledged := t.find(s)
	if acknowledged == nil || n < 1 || n > acknowledged.pending {
		panic(fmt.Sprintf("checkpoint: acknowledged %d events of segment %d, more than are pending", n, s))
	}
	acknowledged.pending -= n
	t.pending -= n
	if acknowledged.pending > 0 || acknowledged == &t.segments[len(t.segments)-1] {
		return
	}
	t.finished++
	t.advance()
}

// find returns the segment of that number, nil if it has been dropped or has
// not begun.
func (t *Tracker) find(s Segment) *segment {
	inUse := t.segments[t.head:]
	i, found := slices.BinarySearchFunc(inUse, s, func(e segment, s Segment) int { return cmp.Compare(e.number, s) })
	if !found {
		return nil
	}
	return &inUse[i]
}

// advance leaves the complete segments in front behind.
func (t *Tracker) advance() {
	for t.head < len(t.segments)-1 && t.segments[t.head].pending == 0 {
		t.confirm(t.segments[t.head].mark)
		t.head++
	}
	if t.finished > len(t.segments)/2 {
		t.compact()
	}
}

// compact drops the finished segments. The mark of one in the middle goes to
// the unfinished one before it, which it waits for.
func (t *Tracker) compact() {
	last := len(t.segments) - 1
	kept := t.segments[:0]
	for i, s := range t.segments[t.head:] {
		if s.pending == 0 && t.head+i < last {
			kept[len(kept)-1].mark.replace(s.mark)
			continue
		}
		kept = append(kept, s)
	}
	t.segments = kept
	t.head, t.finished = 0, 0
}

func (t *Tracker) confirm(m Mark) { t.confirmed.replace(m) }

// replace moves m to a later mark.
func (m *Mark) replace(later Mark) {
	m.LSN = max(m.LSN, later.LSN)
	if !later.CommitTime.IsZero() {
		m.CommitTime = later.CommitTime
	}
}

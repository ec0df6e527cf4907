// Package checkpoint decides how far the replication slot may be confirmed,
// and keeps the record from which a gap is detected.
//
// Acknowledgements arrive in any order; the slot understands a single
// position. A position is confirmed once every event ahead of it in the stream
// has been acknowledged, and not a moment sooner.
package checkpoint

import (
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
)

// Tracker turns acknowledgements in any order into one contiguous position. It
// counts by segment, the events between two markers of the stream, so that a
// transaction of a million rows costs as much as one of a single row. It
// belongs to one goroutine.
type Tracker struct {
	// segments are the unfinished ones in stream order. The last one is open:
	// no marker has followed it yet. segments[head:] are in use.
	segments []segment
	head     int
	// first is the number of segments[head].
	first Segment
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
	return t.first + Segment(len(t.segments)-1-t.head)
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
	t.segments[last].mark = m
	t.segments = append(t.segments, segment{})
	t.advance()
}

// Ack records the acknowledgement of n events of s, each of which was begun
// and is acknowledged once.
func (t *Tracker) Ack(s Segment, n int) {
	i := t.head + int(s-t.first)
	if s < t.first || i >= len(t.segments) || t.segments[i].pending < n {
		panic(fmt.Sprintf("checkpoint: %d events of segment %d acknowledged twice", n, s))
	}
	t.segments[i].pending -= n
	t.pending -= n
	t.advance()
}

// advance drops the complete segments in front.
func (t *Tracker) advance() {
	for t.head < len(t.segments)-1 && t.segments[t.head].pending == 0 {
		t.confirm(t.segments[t.head].mark)
		t.head++
		t.first++
	}
	if t.head > len(t.segments)/2 {
		n := copy(t.segments, t.segments[t.head:])
		t.segments = t.segments[:n]
		t.head = 0
	}
}

func (t *Tracker) confirm(m Mark) { t.confirmed.replace(m) }

// replace moves m to a later mark.
func (m *Mark) replace(later Mark) {
	m.LSN = max(m.LSN, later.LSN)
	if !later.CommitTime.IsZero() {
		m.CommitTime = later.CommitTime
	}
}

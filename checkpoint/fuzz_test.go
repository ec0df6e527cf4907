package checkpoint

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

// model is a tracker without any thrift: the stream itself.
type model []element

// element is a mark, or an event in a segment.
type element struct {
	isMark       bool
	mark         Mark
	segment      Segment
	acknowledged bool
}

func (m model) confirmed() (c Mark) {
	for _, e := range m {
		switch {
		case e.isMark:
			c.LSN = max(c.LSN, e.mark.LSN)
			if !e.mark.CommitTime.IsZero() {
				c.CommitTime = e.mark.CommitTime
			}
		case !e.acknowledged:
			return c
		}
	}
	return c
}

// pending returns the segments of the events that are not acknowledged.
func (m model) pending() (segments []Segment) {
	for _, e := range m {
		if !e.isMark && !e.acknowledged {
			segments = append(segments, e.segment)
		}
	}
	return segments
}

func (m model) ack(s Segment, n int) {
	for i := range m {
		if e := &m[i]; n > 0 && !e.isMark && !e.acknowledged && e.segment == s {
			e.acknowledged = true
			n--
		}
	}
}

// last returns the segment of the newest event, and whether a mark follows it.
func (m model) last() (s Segment, marked, ok bool) {
	for _, e := range slices.Backward(m) {
		if !e.isMark {
			return e.segment, marked, true
		}
		marked = true
	}
	return 0, marked, false
}

// FuzzTracker compares a tracker with the model after every step. A byte is a
// step: its two lowest bits choose it, the rest is its argument.
func FuzzTracker(f *testing.F) {
	const (
		begin = iota
		mark
		acknowledge
		acknowledgeAll
	)
	step := func(kind, argument byte) byte { return argument<<2 | kind }
	f.Add([]byte{step(begin, 0), step(mark, 1), step(acknowledge, 0), step(mark, 3)})
	f.Add([]byte{
		step(begin, 3), step(mark, 1), step(begin, 0), step(mark, 2), step(begin, 1), step(mark, 33), step(mark, 2),
		step(acknowledgeAll, 5), step(acknowledgeAll, 4), step(acknowledge, 1), step(acknowledge, 0), step(acknowledgeAll, 0),
	})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var (
			tracker = NewTracker()
			stream  model
			lsn     pglogrepl.LSN
		)
		for _, b := range steps[:min(len(steps), 512)] {
			argument := int(b >> 2)
			switch pending := stream.pending(); b & 3 {
			case begin:
				for range 1 + argument%8 {
					s := tracker.Begin()
					if previous, marked, ok := stream.last(); ok && (s == previous) == marked {
						t.Fatalf("got segment %d behind %d, with a mark between them: %t", s, previous, marked)
					}
					stream = append(stream, element{segment: s})
				}
			case mark:
				m := Mark{LSN: lsn + pglogrepl.LSN(argument%16)}
				if argument&16 != 0 {
					m.CommitTime = time.Unix(int64(len(stream)), 0)
				}
				if argument&32 == 0 {
					lsn = m.LSN // else the next one may go back
				}
				tracker.Mark(m)
				stream = append(stream, element{isMark: true, mark: m})
			case acknowledge, acknowledgeAll:
				if len(pending) == 0 {
					continue
				}
				s, n := pending[argument%len(pending)], 1
				if b&3 == acknowledgeAll {
					n = count(pending, s)
				}
				tracker.Ack(s, n)
				stream.ack(s, n)
			}
			compare(t, tracker, stream)
		}
	})
}

func compare(t *testing.T, tracker *Tracker, stream model) {
	t.Helper()
	if got, want := tracker.Confirmed(), stream.confirmed(); got != want {
		t.Fatalf("confirmed: got %+v, want %+v", got, want)
	}
	pending := stream.pending()
	if got, want := tracker.Pending(), len(pending); got != want {
		t.Fatalf("pending: got %d, want %d", got, want)
	}
	unfinished := 0
	for i, s := range pending {
		if i == 0 || pending[i-1] != s {
			unfinished++
		}
	}
	if got, most := len(tracker.segments), 2*(unfinished+1); got > most {
		t.Fatalf("got %d segments for %d unfinished transactions, want at most %d", got, unfinished, most)
	}
}

func count(segments []Segment, s Segment) (n int) {
	for _, other := range segments {
		if other == s {
			n++
		}
	}
	return n
}

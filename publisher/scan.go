package publisher

import (
	"context"
	"errors"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Record headers of most profiles.
const (
	positionHeader = "position"
	originHeader   = "origin"
)

// tail is the last record of our origin in a partition.
type tail struct {
	position decoder.Position
	eventID  string
	offset   int64
	// producerID wrote it.
	producerID int64
}

// errTruncated says that a partition ends before an offset that was read before.
var errTruncated = errors.New("the partition has become shorter")

// emptyTries is how many fetches, each of which waits for fetchWait, show that a
// partition really ends where it seems to.
const emptyTries = 15

// scan looks for the tail of one origin.
type scan struct {
	*reader
	origin string
	// The names of the headers depend on the profile.
	eventIDHeader, positionHeader string
}

// The windows that are read backwards before the marker, in offsets, and the
// bytes after which the search is given up: what lies further back than that is
// out of reach, and nothing is skipped on its account.
const (
	firstWindow  = 64
	windowGrowth = 8
	scanBytes    = 8 << 20
)

// marker says where a control batch stands, and what of ours was in front of it.
type marker struct {
	offset int64
	// logStart is where the partition began when the marker was read.
	logStart int64
	// tail is the last record of ours between the start of the wait and the
	// marker, nil if there is none.
	tail *tail
}

// errNoMarker says that the marker did not come in time. A coordinator drops it
// for good when the partition has no leader at that moment.
var errNoMarker = errors.New("the marker of the empty transaction did not appear in the partition")

// awaitMarker reads from offset on until the control batch of id comes by, or ctx
// ends.
func (s *scan) awaitMarker(ctx context.Context, offset int64, id identity) (marker, error) {
	var m marker
	for {
		p, err := s.fetch(ctx, offset)
		if err != nil {
			return m, err
		}
		for _, e := range p.entries {
			if e.control && e.producerID == id.producerID && e.epoch == id.epoch {
				m.offset, m.logStart = e.offset, p.start
				return m, nil
			}
			if t := s.ours(e); t != nil {
				m.tail = t
			}
		}
		offset = p.next
	}
}

// before returns the last record of ours in front of end, nil if there is none
// within reach. It reads windows from back to front, each of them forwards, as a
// partition can only be read forwards.
func (s *scan) before(ctx context.Context, start, end int64) (*tail, error) {
	budget := scanBytes
	for window := int64(firstWindow); end > start && budget > 0; {
		from := max(start, end-window)
		t, read, err := s.window(ctx, from, end, budget)
		if err != nil {
			return nil, err
		}
		if read > budget && end-from > 1 {
			// The records are large and the end of the window was not
			// reached: read only the part of it that is nearest to the end.
			window = max(1, (end-from)/windowGrowth)
			continue
		}
		if t != nil {
			return t, nil
		}
		budget -= read
		end = from
		window *= windowGrowth
	}
	return nil, nil
}

// window returns the last record of ours in [from, end) and how many bytes were
// read. It stops when that is more than the budget.
func (s *scan) window(ctx context.Context, from, end int64, budget int) (last *tail, read int, err error) {
	for offset, empty := from, 0; offset < end; {
		p, err := s.fetch(ctx, offset)
		if err != nil {
			return nil, read, err
		}
		if p.next == offset {
			// A new leader may know less for a moment than the old one.
			if empty++; empty == emptyTries {
				return nil, read, errTruncated
			}
			continue
		}
		for _, e := range p.entries {
			if t := s.ours(e); t != nil && e.offset < end {
				last = t
			}
		}
		offset = p.next
		if read += p.bytes; read > budget && offset < end {
			return nil, read, nil
		}
	}
	return last, min(read, budget), nil
}

// at returns the position of the record at offset, of whatever origin: routing may
// have changed since. A record of somebody else, or a control batch, has the zero
// position. found is false if nothing stands there any more.
func (s *scan) at(ctx context.Context, offset int64) (position decoder.Position, found bool, err error) {
	p, err := s.fetch(ctx, offset)
	if err != nil {
		return decoder.Position{}, false, err
	}
	for _, e := range p.entries {
		if e.offset != offset {
			continue
		}
		if t, _ := s.read(e); t != nil {
			return t.position, true, nil
		}
		return decoder.Position{}, true, nil
	}
	return decoder.Position{}, false, nil
}

// ours returns what identifies the record, nil if it is not of our origin.
func (s *scan) ours(e entry) *tail {
	t, origin := s.read(e)
	if s.origin == "" || origin != s.origin {
		return nil
	}
	return t
}

// read returns what identifies a record that has a position, of whatever origin;
// nil for any other.
func (s *scan) read(e entry) (t *tail, origin string) {
	if e.record == nil {
		return nil, ""
	}
	var position, eventID string
	for _, header := range e.record.Headers {
		switch string(header.Key) {
		case originHeader:
			origin = string(header.Value)
		case s.positionHeader:
			position = string(header.Value)
		case s.eventIDHeader:
			eventID = string(header.Value)
		}
	}
	parsed, err := decoder.ParsePosition(position)
	if err != nil {
		return nil, ""
	}
	return &tail{position: parsed, eventID: eventID, offset: e.offset, producerID: e.producerID}, origin
}

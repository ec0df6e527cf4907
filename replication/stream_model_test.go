package replication

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// sessionModel is a naive account of a session from both ends: what the server
// has said, and what the publisher was given and has acknowledged.
type sessionModel struct {
	// received is the highest position that anything said so far has.
	received pglogrepl.LSN
	flushed  pglogrepl.LSN // by the last status
	// understood is false once the server has said something of which we do
	// not know what it means. Events behind that are not judged.
	understood bool
	inside     bool // a transaction
	late       bool // that should have come before what was received
	commit     pglogrepl.LSN
	sent       []sentEvent

	mu        sync.Mutex // guards what follows
	given     []decoder.Entry
	acked     map[int]bool // by event
	done      int          // entries of given that are
	confirmed pglogrepl.LSN
	pause     time.Duration
}

// sentEvent is an event of a transaction that commits at commit.
type sentEvent struct {
	event  int
	commit pglogrepl.LSN
}

// hear takes a message of the server into account, before it is sent.
func (m *sessionModel) hear(s said) {
	switch s.kind {
	case 'B':
		m.inside, m.commit, m.late = true, s.commit, s.commit < m.received
	case 'I':
		if s.event > 0 && m.understood && m.inside && !m.late {
			m.sent = append(m.sent, sentEvent{s.event, m.commit})
		}
	case 'C':
		m.inside = false
	}
	m.received = max(m.received, s.start)
}

// publish takes what the session hands over.
func (m *sessionModel) publish(out <-chan *decoder.Chunk) {
	for c := range out {
		m.mu.Lock()
		for _, e := range c.Entries {
			kept := decoder.Entry{Marker: e.Marker}
			if e.Marker == 0 {
				event, _ := strconv.Atoi(string(e.Row.Field(decoder.FieldID)))
				kept.Position.Index = uint32(event)
			}
			m.given = append(m.given, kept)
		}
		pause := m.pause
		m.pause = 0
		m.mu.Unlock()
		c.Release()
		time.Sleep(pause)
	}
}

// stall has the publisher take nothing for a while behind the next chunk.
func (m *sessionModel) stall(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pause = d
}

// ack acknowledges the next n events, and returns what is confirmed by that.
func (m *sessionModel) ack(n int) pglogrepl.LSN {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; m.done < len(m.given); m.done++ {
		e := m.given[m.done]
		switch {
		case e.Marker != 0:
			m.confirmed = max(m.confirmed, e.Marker)
			continue
		case n == 0:
			return m.confirmed
		}
		n--
		if m.acked == nil {
			m.acked = make(map[int]bool)
		}
		m.acked[int(e.Position.Index)] = true
	}
	return m.confirmed
}

// judge checks a status against all that was said and acknowledged.
func (m *sessionModel) judge(t *testing.T, s status) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s.flush == 0 || s.flush < slotPosition:
		t.Fatalf("flush %s, and the slot was at %s", s.flush, slotPosition)
	case s.flush < m.flushed:
		t.Fatalf("flush went back from %s to %s", m.flushed, s.flush)
	case s.flush > max(m.confirmed, slotPosition):
		t.Fatalf("flush %s, and %s is confirmed", s.flush, m.confirmed)
	case s.flush > m.received || s.write > m.received:
		t.Fatalf("write %s and flush %s, and no more than %s was sent", s.write, s.flush, m.received)
	case s.flush > s.write:
		t.Fatalf("flush %s is ahead of write %s", s.flush, s.write)
	}
	m.flushed = s.flush
	for _, e := range m.sent {
		if e.commit < s.flush && !m.acked[e.event] {
			t.Fatalf("flush %s, and event %d, committed at %s, is not acknowledged", s.flush, e.event, e.commit)
		}
	}
}

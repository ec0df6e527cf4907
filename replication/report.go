package replication

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
)

const (
	// reportSpacing is the shortest time between two status updates. A server
	// that shuts down answers each with a question at once, ten thousand times
	// a second if we let it.
	reportSpacing = 100 * time.Millisecond
	// writeTimeout bounds the writing of a status update. The server reads
	// them even while it cannot send, so more means that it does not live.
	writeTimeout = 10 * time.Second
)

// reporter decides when the server hears from us, and what. It belongs to the
// goroutine that reads.
type reporter struct {
	conn     net.Conn
	interval time.Duration

	// received is the highest LSN that this session has seen, at first the
	// slot's own position. No flush position goes above it.
	received atomic.Uint64
	// flushed is the flush position sent last. It begins at the slot's own
	// position, which moves nothing, so that none is ever 0.
	flushed atomic.Uint64

	last time.Time // of the status sent last
	ping time.Time // when the next one is due whatever happens, and asks for a reply
	owed bool      // whether the server asked and has had no answer
	buf  []byte
}

// start begins a session whose slot stands at position.
func (r *reporter) start(position pglogrepl.LSN, now time.Time) {
	r.received.Store(uint64(position))
	r.flushed.Store(uint64(position))
	r.ping = now
}

// receive notes that the server has sent everything up to lsn.
func (r *reporter) receive(lsn pglogrepl.LSN) {
	if uint64(lsn) > r.received.Load() {
		r.received.Store(uint64(lsn))
	}
}

// target returns the flush position that may be sent when the caller has
// confirmed lsn.
func (r *reporter) target(confirmed pglogrepl.LSN) pglogrepl.LSN {
	return pglogrepl.LSN(max(r.flushed.Load(), min(uint64(confirmed), r.received.Load())))
}

// wake returns when report must be called again. While the caller has
// something to confirm the position is looked at often: nobody tells when it moves.
func (r *reporter) wake(now time.Time) time.Time {
	if r.owed || r.received.Load() > r.flushed.Load() {
		soon := r.last.Add(reportSpacing)
		if !soon.After(now) {
			soon = now.Add(reportSpacing)
		}
		if soon.Before(r.ping) {
			return soon
		}
	}
	return r.ping
}

// report sends a status if one is due: at the end of the interval, and, not
// too often, when the server has asked or the position has moved.
func (r *reporter) report(confirmed pglogrepl.LSN, now time.Time) error {
	switch {
	case !now.Before(r.ping):
		return r.send(confirmed, true, now)
	case now.Sub(r.last) < reportSpacing:
		return nil
	case r.owed || uint64(r.target(confirmed)) > r.flushed.Load():
		return r.send(confirmed, false, now)
	}
	return nil
}

// send writes a status, and whatever extra bytes go with it.
func (r *reporter) send(confirmed pglogrepl.LSN, ask bool, now time.Time, extra ...byte) error {
	flush := r.target(confirmed)
	s := status{write: pglogrepl.LSN(r.received.Load()), flush: flush, at: now, replyRequested: ask}
	r.buf = append(s.append(r.buf[:0]), extra...)
	if err := r.conn.SetWriteDeadline(now.Add(writeTimeout)); err != nil {
		return fmt.Errorf("set write deadline: %w", err)
	}
	// Noted before: a write that fails may have arrived.
	r.flushed.Store(uint64(flush))
	if _, err := r.conn.Write(r.buf); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	r.last, r.owed = now, false
	if ask {
		r.ping = now.Add(r.interval)
	}
	return nil
}

const (
	// leaveAfter is how long a server that shuts down is let wait for
	// acknowledgements that do not come.
	leaveAfter = 2 * time.Second
	// askGap is the longest time between two questions of a server that waits:
	// it asks again as soon as it has an answer.
	askGap  = time.Second
	askMany = 3
)

// farewell recognises a server that is shutting down: it asks again and again,
// nothing moves, and it cannot stop until we leave.
type farewell struct {
	first, last     time.Time
	asks            int
	walEnd, flushed pglogrepl.LSN
}

// asked takes a question of the server into account and reports whether it is
// time to leave.
func (f *farewell) asked(walEnd, flushed pglogrepl.LSN, now time.Time) bool {
	if walEnd != f.walEnd || flushed != f.flushed || now.Sub(f.last) > askGap {
		*f = farewell{first: now, walEnd: walEnd, flushed: flushed}
	}
	f.last = now
	f.asks++
	return f.asks >= askMany && now.Sub(f.first) >= leaveAfter
}

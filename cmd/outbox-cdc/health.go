package main

import (
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

// state is what the process is doing.
type state string

const (
	stateStarting state = "starting" // no session has been up yet
	stateStandby  state = "standby"  // waits for a slot that another process holds
	stateActive   state = "active"   // a session is up
	stateWaiting  state = "waiting"  // between two sessions
	stateStopping state = "stopping" // was asked to stop
)

// states are all states, in the order in which they usually come.
func states() []state {
	return []state{stateStarting, stateStandby, stateActive, stateWaiting, stateStopping}
}

// health is what the process is doing. The session loop, the relay and its
// sessions tell it; what is served over HTTP and the summary in the log read it.
// Any goroutine may call its methods.
type health struct {
	started time.Time

	mu  sync.Mutex // guards what follows
	now situation
}

// situation is all that a health knows.
type situation struct {
	state state
	since time.Time
	// fault is why the last session, or the last attempt at one, has ended; nil
	// while one is up.
	fault error
	// retryAt is when the next attempt begins; zero while one is under way.
	retryAt time.Time
	holder  uint32 // the process of the server that holds the slot, in standby
	session sessionInfo
	// reader is what reads the stream; nil if nothing does.
	reader reader
	// slot is the slot as it was seen last; zero before that.
	slot     replication.Slot
	slotSeen time.Time
	heldBack string // why the server sends nothing; empty if it does
	ended    map[string]uint64
}

// sessionInfo is what is known of the session that is up, or was last.
type sessionInfo struct {
	id      string
	pid     uint32 // of the walsender
	started time.Time
	// received and confirmed tell how far the session is.
	received, confirmed func() pglogrepl.LSN
}

// reader is what reads a stream: turns counts how often it came round, which it
// does at least once within.
type reader struct {
	turns  func() uint64
	within time.Duration
}

func newHealth() *health {
	now := time.Now()
	ended := make(map[string]uint64)
	for _, reason := range endReasons() {
		ended[reason] = 0
	}
	return &health{started: now, now: situation{state: stateStarting, since: now, ended: ended}}
}

// situation returns a copy of what is known now.
func (h *health) situation() situation {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now
	now.ended = maps.Clone(now.ended)
	return now
}

func (h *health) change(f func(now *situation)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.now)
}

// enter changes the state. A process that stops does nothing else any more.
func (now *situation) enter(s state) {
	if now.state != s && now.state != stateStopping {
		now.state, now.since = s, time.Now()
	}
}

// attempt is told when an attempt at a session begins.
func (h *health) attempt() {
	h.change(func(now *situation) { now.retryAt = time.Time{} })
}

// standby is told when the slot is found held by somebody else.
func (h *health) standby(holder uint32) {
	h.change(func(now *situation) {
		now.enter(stateStandby)
		now.holder, now.fault = holder, nil
	})
}

// active is told when a session is up.
func (h *health) active(s sessionInfo) {
	h.change(func(now *situation) {
		now.enter(stateActive)
		now.holder, now.fault, now.session = 0, nil, s
	})
}

// failed is told when a session, or an attempt at one, has ended, and there
// will be another after a pause.
func (h *health) failed(err error, pause time.Duration) {
	h.change(func(now *situation) {
		if now.state != stateStarting {
			now.enter(stateWaiting)
		}
		now.holder, now.fault, now.retryAt, now.heldBack = 0, err, time.Now().Add(pause), ""
	})
}

// sessionEnded counts a session that was up.
func (h *health) sessionEnded(reason string) {
	h.change(func(now *situation) { now.ended[reason]++ })
}

// stopping is told when the process is asked to stop.
func (h *health) stopping() {
	h.change(func(now *situation) { now.enter(stateStopping) })
}

// reads is told when the stream begins to be read. The function returned tells
// that it no longer is.
func (h *health) reads(r reader) (ended func()) {
	h.change(func(now *situation) { now.reader = r })
	return func() { h.change(func(now *situation) { now.reader = reader{} }) }
}

// sawSlot is told what state the slot is in.
func (h *health) sawSlot(slot replication.Slot) {
	h.change(func(now *situation) { now.slot, now.slotSeen = slot, time.Now() })
}

// isHeldBack is told why the server does not send what it has; nothing means
// that it does.
func (h *health) isHeldBack(why string) {
	h.change(func(now *situation) { now.heldBack = why })
}

// The reasons for which sessions end, for those who count them. They follow the
// exit codes that the error would give.
const (
	endedStopped   = "stopped"
	endedStartOver = "start_over"
	endedOther     = "error"
)

// endReasons are all reasons for which a session can end.
func endReasons() []string {
	reasons := []string{endedStopped, endedStartOver, endedOther}
	for _, reason := range reasonsByCode() {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	return reasons
}

func reasonsByCode() map[int]string {
	return map[int]string{
		codeUsage: "setup", codePostgres: "postgres", codeKafka: "kafka", codeGap: "gap",
		codeBusy: "busy", codeHalted: "halted", codeDenied: "denied",
	}
}

// endReason returns the reason for which a session has ended, or an attempt at
// one.
func endReason(err error, stopped bool) string {
	if stopped {
		return endedStopped
	}
	r := classify(err)
	if r.class == classStartOver {
		return endedStartOver
	}
	if reason, known := reasonsByCode()[r.code]; known {
		return reason
	}
	// The brokers' connections end no session, so this one was the database's.
	var refused *pgconn.PgError
	var network net.Error
	if errors.As(err, &refused) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) {
		return reasonsByCode()[codePostgres]
	}
	return endedOther
}

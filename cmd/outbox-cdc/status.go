package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// monitor answers from outside what a running process is doing and whether
// anything is wrong with it. Any goroutine may call its methods.
type monitor struct {
	slot     string
	health   *health
	watchdog *watchdog
	progress func() publisher.Progress
	troubles func() []publisher.Trouble
}

func newMonitor(slot string, p *publisher.Publisher, shutdownTimeout time.Duration) *monitor {
	h := newHealth()
	return &monitor{
		slot: slot, health: h, watchdog: newWatchdog(h, p.Alive, shutdownTimeout+finishTimeout),
		progress: p.Progress, troubles: p.Troubles,
	}
}

// liveness says whether a restart would help.
type liveness struct {
	Alive  bool   `json:"alive"`
	Reason string `json:"reason,omitempty"`
}

func (m *monitor) liveness() liveness {
	stuck := m.watchdog.stuck()
	return liveness{Alive: stuck == "", Reason: stuck}
}

// readiness says whether the process does what it is for, or stands by to.
type readiness struct {
	Ready bool `json:"ready"`
	// Role is active or standby, if it is ready.
	Role state `json:"role,omitempty"`
	// Reason is the first of Problems, each a line for an operator.
	Reason   string   `json:"reason,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

func (m *monitor) readiness() readiness { return judge(m.health.situation(), m.troubles()) }

// judge says whether a process in a situation is ready.
func judge(now situation, troubles []publisher.Trouble) readiness {
	var problems []string
	if line := stateLine(now); line != "" {
		problems = append(problems, line)
	}
	if now.heldBack != "" {
		problems = append(problems, now.heldBack)
	}
	for _, t := range troubles {
		problems = append(problems, troubleLine(t))
	}
	if len(problems) > 0 {
		return readiness{Reason: problems[0], Problems: problems}
	}
	return readiness{Ready: true, Role: now.state}
}

// stateLine says why no session is up; it is empty if one is, or need not be.
func stateLine(now situation) string {
	var line string
	switch now.state {
	case stateActive, stateStandby:
		return ""
	case stateWaiting:
		line = "no session since " + clock(now.since)
	default:
		line = string(now.state) + " since " + clock(now.since)
	}
	if now.fault != nil {
		line += ": " + oneLine(now.fault.Error())
	}
	return line
}

// troubleLine is a trouble on Kafka's side as one line.
func troubleLine(t publisher.Trouble) string {
	line := oneLine(t.Reason)
	switch {
	case t.Topic == "" || strings.Contains(line, strconv.Quote(t.Topic)):
	case t.Partition == nil:
		line = fmt.Sprintf("topic %q: %s", t.Topic, line)
	default:
		line = fmt.Sprintf("topic %q, partition %d: %s", t.Topic, *t.Partition, line)
	}
	if t.Remedy != "" {
		line += "; " + oneLine(t.Remedy)
	}
	return line + " (since " + clock(t.Since) + ")"
}

// clock is a moment as people and programs read it.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// status is everything that is known of the process.
type status struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	State   state     `json:"state"`
	Since   time.Time `json:"since"`
	Live    liveness  `json:"live"`
	Ready   readiness `json:"ready"`
	// Warnings are remarks on what is not wrong yet.
	Warnings []string `json:"warnings,omitempty"`
	// RetryAt is when the next session is tried.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// HolderPID is the process of the server that holds the slot, in standby.
	HolderPID uint32 `json:"holder_pid,omitempty"`
	SlotName  string `json:"slot_name"`
	// Slot is the slot as it was seen last, SlotSeen when that was.
	Slot     *slotJSON       `json:"slot,omitempty"`
	SlotSeen time.Time       `json:"slot_seen,omitzero"`
	Session  statusOfSession `json:"session,omitzero"`
	// Progress and Troubles are those of the publisher.
	Progress publisher.Progress  `json:"progress"`
	Troubles []publisher.Trouble `json:"troubles,omitempty"`
	// Ended counts the sessions that have ended, attempts included, by reason.
	Ended map[string]uint64 `json:"sessions_ended"`
}

// statusOfSession is the session that is up, or was last.
type statusOfSession struct {
	ID           string    `json:"id"`
	WALSenderPID uint32    `json:"walsender_pid"`
	Started      time.Time `json:"started"`
	// Received is how far the stream was read, Confirmed how far the server was
	// told that it is done with.
	Received  lsnText `json:"received_lsn"`
	Confirmed lsnText `json:"confirmed_lsn"`
}

func (m *monitor) status() status {
	now, troubles := m.health.situation(), m.troubles()
	s := status{
		Version: buildVersion(), Started: m.health.started, State: now.state, Since: now.since,
		Live: m.liveness(), Ready: judge(now, troubles), Warnings: warnings(now.slot),
		RetryAt: now.retryAt, HolderPID: now.holder,
		SlotName: m.slot, SlotSeen: now.slotSeen, Session: now.session.status(),
		Progress: m.progress(), Troubles: troubles, Ended: now.ended,
	}
	if !now.slotSeen.IsZero() {
		slot := newSlotJSON(now.slot)
		s.Slot = &slot
	}
	return s
}

func (s sessionInfo) status() statusOfSession {
	if s.id == "" {
		return statusOfSession{}
	}
	return statusOfSession{ID: s.id, WALSenderPID: s.pid, Started: s.started, Received: lsnText(s.received()), Confirmed: lsnText(s.confirmed())}
}

// warnings are remarks on a slot that is not lost yet.
func warnings(slot replication.Slot) []string {
	if danger := slot.Danger(); danger != "" {
		return []string{danger}
	}
	return nil
}

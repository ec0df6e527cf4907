package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

func TestHealthFollowsWhatItIsTold(t *testing.T) {
	up := func(h *health) { h.active(sessionInfo{id: "one"}) }
	ended := func(h *health) { h.failed(errAway, time.Minute) }
	standby := func(h *health) { h.standby(4711) }
	for _, tc := range []struct {
		name   string
		told   []func(*health)
		state  state
		ready  bool
		reason string // is in the reason
	}{
		{name: "nothing yet", state: stateStarting, reason: "starting since"},
		{name: "an attempt has failed", told: []func(*health){ended}, state: stateStarting, reason: "starting since"},
		{name: "a session is up", told: []func(*health){up}, state: stateActive, ready: true},
		{name: "a session is up after an attempt has failed", told: []func(*health){ended, (*health).attempt, up}, state: stateActive, ready: true},
		{name: "another holds the slot", told: []func(*health){standby}, state: stateStandby, ready: true},
		{name: "the slot was taken over", told: []func(*health){standby, up}, state: stateActive, ready: true},
		{name: "a session has ended", told: []func(*health){up, ended}, state: stateWaiting, reason: "no session since"},
		{name: "the next attempt is under way", told: []func(*health){up, ended, (*health).attempt}, state: stateWaiting, reason: "no session since"},
		{name: "the next session is up", told: []func(*health){up, ended, (*health).attempt, up}, state: stateActive, ready: true},
		{name: "asked to stop", told: []func(*health){up, (*health).stopping}, state: stateStopping, reason: "stopping since"},
		{name: "asked to stop while an attempt was under way", told: []func(*health){(*health).stopping, up}, state: stateStopping, reason: "stopping since"},
		{
			name: "the server holds the slot back", state: stateActive, reason: "synchronized_standby_slots",
			told: []func(*health){up, func(h *health) { h.isHeldBack("see synchronized_standby_slots") }},
		},
		{
			name: "the server sends again", state: stateActive, ready: true,
			told: []func(*health){up, func(h *health) { h.isHeldBack("see") }, func(h *health) { h.isHeldBack("") }},
		},
		{
			name: "the slot is in danger", state: stateActive, ready: true,
			told: []func(*health){up, func(h *health) { h.sawSlot(replication.Slot{WALStatus: "unreserved"}) }},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHealth()
			for _, tell := range tc.told {
				tell(h)
			}
			now := h.situation()
			if now.state != tc.state {
				t.Errorf("state %s, want %s", now.state, tc.state)
			}
			got := judge(now, nil)
			if got.Ready != tc.ready || !strings.Contains(got.Reason, tc.reason) || (got.Reason == "") != tc.ready {
				t.Errorf("got %+v, want ready %v and a reason with %q", got, tc.ready, tc.reason)
			}
			if tc.ready && got.Role != tc.state {
				t.Errorf("role %s, want %s", got.Role, tc.state)
			}
		})
	}
}

func TestReadinessNamesEveryProblem(t *testing.T) {
	h := newHealth()
	h.active(sessionInfo{id: "one"})
	h.failed(errors.New("server\naway"), time.Minute)
	troubles := []publisher.Trouble{{Topic: "orders", Reason: `topic "orders" is unknown`, Remedy: "create it"}, {Topic: "orders", Partition: new(int32), Reason: "no leader"}, {Reason: "no broker"}}
	got := judge(h.situation(), troubles)
	if got.Ready || len(got.Problems) != 4 || got.Reason != got.Problems[0] {
		t.Fatalf("got %+v, want not ready and four problems", got)
	}
	for i, want := range []string{"no session since", `topic "orders" is unknown; create it (since`, `topic "orders", partition 0: no leader (since`, "no broker (since"} {
		if !strings.HasPrefix(got.Problems[i], want) {
			t.Errorf("problem %d is %q, want %q", i, got.Problems[i], want)
		}
	}
}

func TestSessionsAreCountedByReason(t *testing.T) {
	reasons := endReasons()
	for name, tc := range map[string]struct {
		err     error
		stopped bool
		want    string
	}{
		"server restarted":   {err: fmt.Errorf("walsender: %w", &pgconn.PgError{Code: "57P01"}), want: "postgres"},
		"connection lost":    {err: fmt.Errorf("read: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}), want: "postgres"},
		"in order":           {stopped: true, want: "stopped"},
		"server away":        {err: errAway, want: "postgres"},
		"brokers away":       {err: &publisher.Fault{Kind: publisher.ErrUnreachable}, want: "kafka"},
		"slot lost":          {err: errFatal, want: "gap"},
		"proved untrue":      {err: publisher.ErrStartOver, want: "start_over"},
		"poison":             {err: publisher.ErrHalted, want: "halted"},
		"password":           {err: &replication.Fault{Kind: replication.ErrDenied}, want: "denied"},
		"publication absent": {err: &replication.Fault{Kind: replication.ErrSetup}, want: "setup"},
		"unknown":            {err: errors.New("never seen"), want: "error"},
	} {
		got := endReason(tc.err, tc.stopped)
		if got != tc.want || !slices.Contains(reasons, got) {
			t.Errorf("%s: got %q, want %q, which is one of %v", name, got, tc.want, reasons)
		}
	}
	h := newHealth()
	h.sessionEnded("kafka")
	h.sessionEnded("kafka")
	if ended := h.situation().ended; ended["kafka"] != 2 || len(ended) != len(reasons) {
		t.Errorf("got %v", ended)
	}
}

func TestWarningsBeforeASlotIsLost(t *testing.T) {
	for status, want := range map[string]int{"": 0, "reserved": 0, "extended": 0, "unreserved": 1} {
		if got := warnings(replication.Slot{Name: "orders", WALStatus: status}); len(got) != want {
			t.Errorf("wal_status %q: got %q, want %d warnings", status, got, want)
		}
	}
}

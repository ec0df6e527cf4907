package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// attempt is one session of a script: how long it takes to come up, how long it
// is up then, and how it ends.
type attempt struct {
	opening time.Duration
	up      bool
	lasts   time.Duration
	err     error
}

// run is a session for a loop.
func (a attempt) run(ctx context.Context, up func()) error {
	if !wait(ctx, a.opening) {
		return context.Cause(ctx)
	}
	if a.up {
		up()
	}
	if !wait(ctx, a.lasts) {
		return nil
	}
	return a.err
}

// script runs the attempts one after the other, and the last one again and
// again. begun gets the time at which each began.
func script(begun *[]time.Duration, attempts ...attempt) func(context.Context, func()) error {
	start := time.Now()
	return func(ctx context.Context, up func()) error {
		*begun = append(*begun, time.Since(start))
		return attempts[min(len(*begun), len(attempts))-1].run(ctx, up)
	}
}

var (
	errAway  = &replication.Fault{Kind: replication.ErrUnreachable, Message: "server away"}
	errFatal = &replication.Fault{Kind: replication.ErrGap, Message: "slot gone"}
)

// TestPausesGrow has a server that is away for long: the pauses between sessions
// grow to 30 s and stay there.
//
// Behaviours: S27
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun []time.Duration
		l := loop{health: newHealth(), log: slog.New(slog.DiscardHandler), startTimeout: time.Second,
			session: script(&begun, attempt{up: true, err: errAway}, attempt{err: errAway})}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := l.run(ctx); err != nil {
			t.Fatalf("got %v: once a session was up, the loop goes on until it is stopped", err)
		}
		want := firstPause
		for i := 1; i < len(begun); i++ {
			pause := begun[i] - begun[i-1]
			if most := scale(want, 1+jitter); pause < want || pause > most {
				t.Errorf("pause %d is %s, want %s to %s", i, pause, want, most)
			}
			want = min(2*want, lastPause)
		}
		if len(begun) < 15 {
			t.Errorf("%d attempts in 10 minutes, want at least 15", len(begun))
		}
	})
}

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

func TestPausesBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun []time.Duration
		l := loop{health: newHealth(), log: slog.New(slog.DiscardHandler), startTimeout: time.Second, session: script(&begun,
			attempt{up: true, err: errAway}, attempt{err: errAway}, attempt{err: errAway}, // 1 s, 2 s, 4 s
			attempt{up: true, lasts: time.Hour, err: errAway}, // 1 s again
			attempt{up: true, lasts: time.Hour})}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		if err := l.run(ctx); err != nil {
			t.Fatal(err)
		}
		pause := begun[4] - begun[3] - time.Hour
		if pause > scale(firstPause, 1+jitter) {
			t.Errorf("the pause behind a session that lasted is %s, want about %s", pause, firstPause)
		}
	})
}

func TestLoopEnds(t *testing.T) {
	cause := errors.New("asked to stop")
	for _, tc := range []struct {
		name     string
		attempts []attempt
		stop     time.Duration // 0: nobody stops it
		want     error         // nil: in order
		code     int
		after    time.Duration
		sessions int
	}{
		{name: "fatal at start", attempts: []attempt{{err: errFatal}}, want: errFatal, code: 6, sessions: 1},
		{name: "fatal later", attempts: []attempt{{up: true, lasts: time.Hour, err: errAway}, {err: errFatal}}, want: errFatal, code: 6, after: time.Hour + 2*time.Second, sessions: 2},
		{name: "never up", attempts: []attempt{{err: errAway}}, want: errNotStarted, code: 4, after: 30 * time.Second, sessions: 6},
		{name: "Kafka never up", attempts: []attempt{{err: &publisher.Fault{Kind: publisher.ErrUnreachable}}}, want: errNotStarted, code: 5, after: 30 * time.Second, sessions: 6},
		{name: "an attempt that hangs", attempts: []attempt{{opening: time.Hour}}, want: errNotStarted, code: 4, after: 30 * time.Second, sessions: 1},
		{name: "waiting for the slot is no fault", attempts: []attempt{{up: true, lasts: time.Hour, err: errAway}, {err: errFatal}}, want: errFatal, code: 6, after: time.Hour + 2*time.Second, sessions: 2},
		{name: "stopped while up", attempts: []attempt{{up: true, lasts: time.Hour}}, stop: time.Minute, after: time.Minute, sessions: 1},
		{name: "stopped while opening", attempts: []attempt{{opening: time.Minute}}, stop: time.Second, after: time.Second, sessions: 1},
		{name: "stopped in a pause", attempts: []attempt{{err: errAway}}, stop: 100 * time.Millisecond, after: 100 * time.Millisecond, sessions: 1},
		{name: "starting over needs no pause", attempts: []attempt{{up: true, err: publisher.ErrStartOver}, {err: errFatal}}, want: errFatal, code: 6, sessions: 2},
		{name: "starting over again does", attempts: []attempt{{up: true, err: publisher.ErrStartOver}, {up: true, err: publisher.ErrStartOver}, {err: errFatal}}, want: errFatal, code: 6, after: 1200 * time.Millisecond, sessions: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun []time.Duration
				l := loop{health: newHealth(), log: slog.New(slog.DiscardHandler), startTimeout: 30 * time.Second, session: script(&begun, tc.attempts...)}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.stop > 0 {
					defer time.AfterFunc(tc.stop, func() { cancel(cause) }).Stop()
				}
				start := time.Now()
				err := l.run(ctx)
				took := time.Since(start)
				if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				if err != nil && classify(err).code != tc.code {
					t.Errorf("got exit code %d, want %d", classify(err).code, tc.code)
				}
				if took > tc.after || took < tc.after-2*time.Second {
					t.Errorf("took %s, want about %s", took, tc.after)
				}
				if len(begun) > tc.sessions || len(begun) < tc.sessions-1 {
					t.Errorf("%d sessions, want %d", len(begun), tc.sessions)
				}
			})
		})
	}
}

func TestStopOutOfOrder(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	l := loop{health: newHealth(), log: slog.New(slog.DiscardHandler), startTimeout: time.Minute, session: func(_ context.Context, up func()) error {
		up()
		cancel(errInterrupted)
		return fmt.Errorf("%w: no answer to the last status", replication.ErrSilent)
	}}
	err := l.run(ctx)
	if !errors.Is(err, errUnfinished) || classify(err).code != codeRuntime {
		t.Errorf("got %v and exit code %d, want %d", err, classify(err).code, codeRuntime)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/outbox-cdc/outbox-cdc/units"
)

var (
	// errNotStarted ends a process whose first session does not come up.
	errNotStarted = errors.New("not started")
	// errTooLate ends the attempt during which --start-timeout ran out.
	errTooLate = errors.New("no answer in time")
	// errUnfinished is a stop that could not be carried out in order.
	errUnfinished = errors.New("stopped, but the end of the session was not in order; what was not confirmed is sent again at the next start and recognised")
)

const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	// jitter is by how much a pause may be longer, so that many processes do
	// not come back in step.
	jitter = 0.2
)

// loop runs one session after the other, for ever once one has been up.
type loop struct {
	log          *slog.Logger
	health       *health
	startTimeout time.Duration
	// session runs one session. It calls up when the session is up, or waits
	// for a reason that is no fault. It returns nil if ctx ended it and
	// everything was left in order.
	session func(ctx context.Context, up func()) error
}

// run returns nil when ctx has ended and the last session with it, and
// otherwise why the process has to end.
func (l *loop) run(ctx context.Context) error {
	starting, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	patience := time.AfterFunc(l.startTimeout, func() { fail(errTooLate) })
	defer patience.Stop()
	ended := "not started yet"
	var last error // of a session that ended by itself
	startedOver := false
	for pauses := (backoff{}); ; {
		var since time.Time // of the session being up
		l.health.attempt()
		err := l.session(starting, func() {
			patience.Stop()
			ended, since = "session ended", time.Now()
		})
		rule := classify(err)
		stopped := ctx.Err() != nil && (err == nil || interrupted(ctx, err))
		l.health.sessionEnded(endReason(err, stopped))
		switch {
		case stopped:
			return nil
		case err == nil || interrupted(starting, err):
			return l.notStarted(last, err)
		case rule.class == classFatal:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", errUnfinished, err)
		}
		last = err
		pause := time.Duration(0)
		if rule.class != classStartOver || startedOver {
			pause = pauses.after(since)
		}
		// What makes one session start over may make the next one do so too.
		startedOver = rule.class == classStartOver
		l.health.failed(err, pause)
		l.log.Warn(ended, "error", err, "retry_in", pause.String())
		if !wait(starting, pause) {
			if ctx.Err() != nil {
				return nil
			}
			return l.notStarted(last, err)
		}
	}
}

// notStarted names what stood in the way: the last fault that was more than the
// end of our patience, or else what we were waiting for.
func (l *loop) notStarted(last, err error) error {
	switch {
	case last != nil:
		err = last
	case err == nil:
		err = errors.New("the first session came up too late")
	}
	return fmt.Errorf("%w within --start-timeout %s: %w", errNotStarted, units.Duration(l.startTimeout), err)
}

// backoff lengthens the pauses between sessions that do not last.
type backoff struct{ pause time.Duration }

// after returns the pause that follows a session which was up since then, or
// never was. One that lasted for longer than the pause before it is a new
// beginning.
func (b *backoff) after(since time.Time) time.Duration {
	if b.pause == 0 || !since.IsZero() && time.Since(since) > b.pause {
		b.pause = firstPause
	} else {
		b.pause = min(2*b.pause, lastPause)
	}
	spread := 1 + jitter*rand.Float64()
	return time.Duration(float64(b.pause) * spread).Round(time.Millisecond)
}

// wait reports whether ctx has let d pass.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// errGiveUp in an error of the condition ends poll.
var errGiveUp = errors.New("no use in waiting")

// patience is how long anything may take that is not a test's own question: to
// start a server on a machine that is busy with other things, for instance.
const patience = 2 * time.Minute

// poll calls condition until it returns nil, every so often, and returns its
// last error when that takes longer than atMost or ctx ends. The context of the
// condition ends then too.
func poll(ctx context.Context, atMost, every time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, atMost, fmt.Errorf("not within %s", atMost))
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := condition(ctx)
		if err == nil || errors.Is(err, errGiveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// PausePID stops a single process with SIGSTOP, such as one walsender.
func PausePID(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

// ResumePID lets a process go on that PausePID stopped.
func ResumePID(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

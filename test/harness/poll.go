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

// poll calls condition until it returns nil, every so often. When ctx ends it
// returns the last error.
func poll(ctx context.Context, every time.Duration, condition func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil || errors.Is(err, errGiveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// PausePID stops a single process with SIGSTOP, such as one walsender.
func PausePID(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

// ResumePID lets a process go on that PausePID stopped.
func ResumePID(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pglogrepl"
)

// Finish leaves in order, after Run has ended with its context. It goes on
// reporting until published is closed, then sends the last status and waits
// until the server has answered: a connection that is closed right behind a
// status takes the status with it. It ends with ctx at the latest.
func (s *Stream) Finish(ctx context.Context, confirmed func() pglogrepl.LSN, published <-chan struct{}) error {
	if err := s.await(ctx, confirmed, published); err != nil {
		return err
	}
	// CopyDone goes right behind the status. The server handles both in order,
	// so its own CopyDone, unlike a keepalive, can be an answer to nothing else.
	if err := s.reporter.send(confirmed(), true, time.Now(), appendEmpty(nil, msgCopyDone)...); err != nil {
		return err
	}
	release := s.reader.interrupt(ctx)
	defer release()
	for {
		done, err := s.discard()
		if done || err != nil {
			return err
		}
		_, err = s.reader.fill(ctx, time.Now().Add(s.silence))
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return fmt.Errorf("wait for the server to take the last status of slot %q: %w", s.slot, context.Cause(ctx))
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("%w: no answer to the last status of slot %q", ErrSilent, s.slot)
		default:
			return fmt.Errorf("wait for the server to take the last status of slot %q: %w", s.slot, err)
		}
	}
}

// await reports until published is closed or ctx ends.
func (s *Stream) await(ctx context.Context, confirmed func() pglogrepl.LSN, published <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-published:
			return nil
		case <-ctx.Done():
			return nil
		case now := <-timer.C:
			if err := s.reporter.report(confirmed(), now); err != nil {
				return err
			}
			timer.Reset(time.Until(s.reporter.wake(now)))
		}
	}
}

// discard drops what has been read, up to the server's answer.
func (s *Stream) discard() (done bool, err error) {
	for {
		m, ok, err := s.reader.next()
		if !ok || err != nil {
			return false, err
		}
		switch m.kind {
		case msgCopyDone, msgCommandComplete:
			// A server that shuts down ends the command when everything that it
			// sent has been confirmed.
			return true, nil
		case msgErrorResponse:
			return false, s.serverError(m.body)
		case msgReadyForQuery:
			return false, fmt.Errorf("%w: it ended the stream of slot %q before it had the last status", ErrShutdown, s.slot)
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// errShutdownTimeout ends a session that was asked to stop and whose events
// were not acknowledged in time.
var errShutdownTimeout = errors.New("the brokers did not acknowledge what was in flight within --shutdown-timeout; it is sent again at the next start and recognised")

const (
	// queuedChunks bounds what is read ahead of the publisher.
	queuedChunks = 4
	// finishTimeout is how long the server may take to answer the last status.
	finishTimeout = 2 * time.Second
)

// session is one START_REPLICATION and the goroutines around it.
type session struct {
	*relay
	srv      *replication.Server
	stream   *replication.Stream
	guard    *replication.Guard
	recorder *checkpoint.Recorder // nil without gap detection
	info     sessionInfo

	// confirmed is how far everything is acknowledged. The publisher moves it.
	confirmed checkpoint.Position
	// lastEvent is the commit time of the newest event that is confirmed, in
	// nanoseconds since 1970; 0 before the first. The publisher moves it.
	lastEvent atomic.Int64
	// recorded is closed when the record carries this session's id, or when it
	// is known that there will be none. Until then the slot must not be moved:
	// behind a crash it would look as if somebody else had.
	recorded chan struct{}
}

// run is the life of the session. It returns nil if stop ended it and the
// server has taken the last status.
func (s *session) run(stop context.Context) error {
	if s.recorder != nil {
		defer s.recorder.Close()
	}
	g, ctx := errgroup.WithContext(s.hard)
	publishing, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	// The guard and the recorder end when nothing is published any more, and
	// before the walsender leaves: the guard would miss it.
	beside, endBeside := context.WithCancel(ctx)
	defer endBeside()
	entries := make(chan *decoder.Chunk, queuedChunks)
	published := make(chan struct{})

	var late error
	g.Go(s.guarded(func() error { return s.guard.Run(beside) }))
	g.Go(s.guarded(func() error { return s.keepRecord(beside) }))
	g.Go(s.guarded(func() error {
		err := s.publisher.Run(publishing, s.events(entries))
		if err == nil {
			// What is acknowledged can be confirmed as soon as there is a
			// record, which a slow server may not have written yet.
			s.awaitRecord(publishing)
		}
		endBeside()
		close(published)
		if errors.Is(err, errShutdownTimeout) {
			late = err // what is acknowledged has yet to be confirmed
			return nil
		}
		return err
	}))
	g.Go(s.guarded(func() error {
		if err := s.read(ctx, stop, entries); err != nil || ctx.Err() != nil {
			return err
		}
		close(entries)
		timer := time.AfterFunc(s.shutdownTimeout, func() { giveUp(errShutdownTimeout) })
		defer timer.Stop()
		return s.finish(ctx, published)
	}))
	err := g.Wait()
	s.memory.Confirmed(s.toConfirm())
	switch {
	case s.hard.Err() != nil:
		err = context.Cause(s.hard)
	case err == nil:
		err = s.end(late)
	}
	if err == nil {
		s.log.Info("session ended", "slot", s.source.Slot, "reason", "asked to stop", "confirmed", s.stream.Flushed().String())
	}
	return err
}

// guarded has a panic of f, which runs in a goroutine of its own, end the
// process with one line.
func (r *relay) guarded(f func() error) func() error {
	return func() error {
		defer r.crash()
		return f()
	}
}

// read hands the stream over to the publisher until stop, or the session, ends.
func (s *session) read(ctx, stop context.Context, entries chan<- *decoder.Chunk) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	defer s.health.reads(reader{turns: s.stream.Turns, within: s.stream.TurnsWithin()})()
	return s.stream.Run(reading, entries, s.toConfirm)
}

// finish leaves the server in order: what is acknowledged until published is
// closed gets confirmed, and the server has it.
func (s *session) finish(ctx context.Context, published <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, s.shutdownTimeout+finishTimeout)
	defer cancel()
	return s.stream.Finish(ctx, s.toConfirm, published)
}

// end closes the record of a session that was left in order.
func (s *session) end(late error) error {
	if late != nil || s.recorder == nil || !s.mayConfirm() {
		return late
	}
	ctx, cancel := context.WithTimeout(s.hard, finishTimeout)
	defer cancel()
	err := s.recorder.End(ctx, s.stream.Flushed())
	if err != nil && !errors.Is(err, checkpoint.ErrUnavailable) {
		// The slot is where it belongs; only the next start has less to go by.
		s.log.Warn("gap-detection record not closed", "slot", s.source.Slot, "error", err)
	}
	return nil
}

// events is the session as the publisher sees it.
func (s *session) events(entries <-chan *decoder.Chunk) publisher.Session {
	_, proved := s.guard.Began()
	in := publisher.Session{
		SystemID: s.srv.SystemID,
		Slot:     s.source.Slot,
		Stream:   s.origin(),
		Tables:   s.srv.Tables,
		Owner:    s.guard,
		Proved:   proved,
		WALEnd:   s.srv.WALEnd,
		Entries:  entries,
		Confirm:  s.confirm,
	}
	if s.letters != nil {
		in.DeadLetter = s.letters.Store
	}
	return in
}

// confirm notes how far everything is acknowledged.
func (s *session) confirm(m checkpoint.Mark) {
	s.confirmed.Advance(m.LSN)
	if !m.CommitTime.IsZero() {
		s.lastEvent.Store(m.CommitTime.UnixNano())
	}
}

// toConfirm returns what the server may be told.
func (s *session) toConfirm() pglogrepl.LSN {
	if !s.mayConfirm() {
		return 0
	}
	return s.confirmed.Load()
}

// mayConfirm reports whether the slot may be moved.
func (s *session) mayConfirm() bool {
	select {
	case <-s.recorded:
		return true
	default:
		return false
	}
}

// awaitRecord waits until the slot may be moved, or ctx ends.
func (s *session) awaitRecord(ctx context.Context) {
	select {
	case <-s.recorded:
	case <-ctx.Done():
	}
}

// latest returns what the record is to say.
func (s *session) latest() (pglogrepl.LSN, time.Time) {
	at := s.lastEvent.Load()
	if at == 0 {
		return s.confirmed.Load(), time.Time{}
	}
	return s.confirmed.Load(), time.Unix(0, at)
}

// keepRecord keeps the gap-detection record of the session.
func (s *session) keepRecord(ctx context.Context) error {
	began := func() { close(s.recorded) }
	if s.recorder == nil {
		began()
		return nil
	}
	err := s.recorder.Run(ctx, began)
	if errors.Is(err, checkpoint.ErrUnavailable) {
		s.warnOnce(oneLine(err.Error())) // the owner of relay is waiting for us
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep the record of slot %q: %w", s.source.Slot, err)
	}
	return nil
}

package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// A chunk is handed over when it holds this much, or when the socket has
// nothing more at once.
const (
	chunkBytes   = 64 << 10
	chunkEntries = 512
)

// Stream is one START_REPLICATION session. It belongs to one goroutine, which
// calls Run, then Finish; Close, Received, Flushed and PID say what they allow.
type Stream struct {
	slot     string
	pid      uint32
	endpoint endpoint
	log      *slog.Logger

	reader   *reader
	reporter reporter
	farewell farewell
	decoder  *decoder.Decoder
	pool     *decoder.Pool
	chunk    *decoder.Chunk

	silence time.Duration
	heard   time.Time // when the server last said anything, while we were reading
	closed  bool

	turns   atomic.Uint64
	strays  uint64 // messages that belong to no transaction
	remarks remarks
}

// newStream returns a stream that has begun at position, where the slot stands.
func newStream(cfg Config, srv Server, r *reader, position pglogrepl.LSN, pool *decoder.Pool) *Stream {
	s := &Stream{
		slot:    cfg.Slot,
		log:     cfg.log(),
		reader:  r,
		decoder: decoder.New(srv.Tables),
		pool:    pool,
		chunk:   pool.Get(),
		silence: cfg.silenceTimeout(),
	}
	if cfg.MessagePrefix != "" {
		s.decoder.AcceptMessages(cfg.MessagePrefix)
	}
	s.reporter.conn = r.conn
	s.reporter.interval = cfg.statusInterval(srv.WALSenderTimeout)
	s.reporter.start(position, time.Now())
	return s
}

// PID returns the process id of the walsender. Any goroutine may call it.
func (s *Stream) PID() uint32 { return s.pid }

// Received returns the highest LSN that the session has seen. Any goroutine
// may call it.
func (s *Stream) Received() pglogrepl.LSN { return pglogrepl.LSN(s.reporter.received.Load()) }

// Flushed returns the flush position that the server was told last. Any
// goroutine may call it.
func (s *Stream) Flushed() pglogrepl.LSN { return pglogrepl.LSN(s.reporter.flushed.Load()) }

// Turns counts how often the goroutine that reads has come round. Any goroutine
// may call it. While Run is under way it grows with each read, and however little
// happens at least once in TurnsWithin.
func (s *Stream) Turns() uint64 { return s.turns.Load() }

// TurnsWithin is how long it may take until Turns has grown: a status update is
// due, and the server is slow to take it.
func (s *Stream) TurnsWithin() time.Duration { return s.reporter.interval + writeTimeout }

// Run reads until ctx ends or the session breaks. It hands chunks over to out
// in the order of the stream, and never closes it. While out is full it goes
// on reporting to the server.
//
// confirmed returns the position up to which everything that this session
// handed over is done; 0 means nothing yet, and moves nothing.
//
// Run returns nil when ctx has ended; Finish comes next. Any error has ended
// the session and closed the connection: a server that is shutting down waits
// for that, and another process for the slot.
func (s *Stream) Run(ctx context.Context, out chan<- *decoder.Chunk, confirmed func() pglogrepl.LSN) error {
	err := s.run(ctx, out, confirmed)
	if err != nil {
		s.hangUp()
	}
	return err
}

func (s *Stream) run(ctx context.Context, out chan<- *decoder.Chunk, confirmed func() pglogrepl.LSN) error {
	release := s.reader.interrupt(ctx)
	defer release()
	s.heard = time.Now()
	for {
		s.turns.Add(1)
		if err := s.drain(ctx, out, confirmed); err != nil {
			return s.left(ctx, err)
		}
		now := time.Now()
		if err := s.reporter.report(confirmed(), now); err != nil {
			return s.left(ctx, err)
		}
		if quiet := now.Sub(s.heard); quiet >= s.silence {
			return fmt.Errorf("%w: nothing for %s on slot %q, although it was asked", ErrSilent, quiet.Round(time.Millisecond), s.slot)
		}
		wake := s.reporter.wake(now)
		if limit := s.heard.Add(s.silence); limit.Before(wake) {
			wake = limit
		}
		n, err := s.reader.fill(ctx, wake)
		if n > 0 {
			s.heard = time.Now()
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return s.left(ctx, fmt.Errorf("read from the walsender of slot %q: %w", s.slot, err))
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// left returns the error that ended the session, nil if the caller ended it.
func (s *Stream) left(ctx context.Context, err error) error {
	if errors.Is(err, context.Cause(ctx)) && ctx.Err() != nil {
		return nil
	}
	return err
}

// drain handles every message that has been read, and hands over what they
// yield.
func (s *Stream) drain(ctx context.Context, out chan<- *decoder.Chunk, confirmed func() pglogrepl.LSN) error {
	for {
		m, ok, err := s.reader.next()
		if err != nil {
			return err
		}
		if !ok {
			return s.handOver(ctx, out, confirmed)
		}
		if err := s.handle(m); err != nil {
			return err
		}
		if s.chunk.Bytes() >= chunkBytes || len(s.chunk.Entries) >= chunkEntries {
			if err := s.handOver(ctx, out, confirmed); err != nil {
				return err
			}
		}
	}
}

// handOver gives the chunk to the publisher. While the publisher is behind,
// the server goes on hearing from us.
func (s *Stream) handOver(ctx context.Context, out chan<- *decoder.Chunk, confirmed func() pglogrepl.LSN) error {
	if len(s.chunk.Entries) == 0 {
		return nil
	}
	select {
	case out <- s.chunk:
		s.chunk = s.pool.Get()
		return nil
	default:
	}
	// What the server says meanwhile is not read, so it is not silent.
	defer func() { s.heard = time.Now() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case out <- s.chunk:
			s.chunk = s.pool.Get()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-timer.C:
			s.turns.Add(1)
			if err := s.reporter.report(confirmed(), now); err != nil {
				return err
			}
			timer.Reset(time.Until(s.reporter.wake(now)))
		}
	}
}

// handle consumes one message. Everything but CopyData and notices ends the
// session: a loop that waits for CopyData alone would hang.
func (s *Stream) handle(m message) error {
	switch m.kind {
	case msgCopyData:
		return s.copyData(m.body)
	case msgNoticeResponse:
		return s.notice(m.body)
	case msgParameterStatus:
		return nil
	case msgErrorResponse:
		return s.serverError(m.body)
	case msgCommandComplete, msgCopyDone, msgReadyForQuery:
		return fmt.Errorf("%w: it ended the stream of slot %q (message %q)", ErrShutdown, s.slot, m.kind)
	}
	return fmt.Errorf("%w: type %q in the stream of slot %q", errFraming, m.kind, s.slot)
}

func (s *Stream) copyData(body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("%w: empty CopyData", errFraming)
	}
	switch body[0] {
	case copyXLogData:
		x, err := parseXLogData(body)
		if err != nil {
			return err
		}
		s.reporter.receive(x.start)
		if err := s.decoder.Decode(x.data, s.chunk); err != nil {
			return fmt.Errorf("decode at %s: %w", x.start, err)
		}
		s.noteStrays()
		return s.credible()
	case copyKeepalive:
		k, err := parseKeepalive(body)
		if err != nil {
			return err
		}
		return s.keepalive(k)
	}
	return fmt.Errorf("%w: CopyData of type 0x%02x", errFraming, body[0])
}

// credible checks that the newest marker promises no more than has been
// received. A commit ends where its own message says it stands; one that ends
// beyond would, as more is received, confirm events that are still out.
func (s *Stream) credible() error {
	n := len(s.chunk.Entries)
	if n == 0 || s.chunk.Entries[n-1].Marker <= s.Received() {
		return nil
	}
	return fmt.Errorf("%w: a transaction ends at %s, and no more than %s was received", decoder.ErrMalformed, s.chunk.Entries[n-1].Marker, s.Received())
}

// keepalive costs next to nothing: a busy cluster sends a thousand a second.
func (s *Stream) keepalive(k keepalive) error {
	s.reporter.receive(k.walEnd)
	s.decoder.Keepalive(k.walEnd, s.chunk)
	if !k.replyRequested {
		return nil
	}
	s.reporter.owed = true
	if s.farewell.asked(k.walEnd, s.Flushed(), time.Now()) {
		return fmt.Errorf("%w: it has waited %s for acknowledgements up to %s on slot %q", ErrShutdown, leaveAfter, k.walEnd, s.slot)
	}
	return nil
}

// Close ends the session and releases what it holds. It is called once, when
// no other method runs.
func (s *Stream) Close() error {
	s.chunk.Release()
	s.chunk = nil
	return s.hangUp()
}

// hangUp closes the connection, if it is open.
func (s *Stream) hangUp() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.countStrays()
	conn := s.reader.conn
	conn.SetWriteDeadline(time.Now().Add(time.Second))
	conn.Write(appendEmpty(nil, msgTerminate)) // politeness; the close says the same
	if err := conn.Close(); err != nil {
		return fmt.Errorf("close the walsender's connection: %w", err)
	}
	return nil
}

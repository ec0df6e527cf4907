package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

const (
	// busyPoll is how often a slot that another connection holds is looked at.
	// The look is a query: a START that is refused would fill the server's log.
	busyPoll = 500 * time.Millisecond
	// busyRemind is how often the log repeats that we wait.
	busyRemind = 10 * time.Minute
)

// OpenStream starts a session on the server that Preflight looked at, at the
// slot's own position: a position from memory may belong to a history that the
// server no longer has. Chunks come from pool.
//
// It waits without limit while another connection holds the slot, unless
// Config.NoWait makes that ErrBusy. The caller closes the stream.
func OpenStream(ctx context.Context, cfg Config, srv *Server, pool *decoder.Pool) (*Stream, error) {
	conn, err := srv.takeWalsender(ctx, cfg)
	if err != nil {
		return nil, err
	}
	position, err := start(ctx, cfg, srv, conn)
	if err != nil {
		conn.giveUp()
		return nil, err
	}
	s := newStream(cfg, *srv, newReader(conn), position, pool)
	s.pid, s.endpoint = conn.PID(), conn.dialer.reached
	cfg.log().Debug("replication connection", "slot", cfg.Slot, "walsender_pid", s.pid, "address", s.endpoint.address,
		"receive_buffer_bytes", conn.dialer.granted, "status_interval", s.reporter.interval)
	return s, nil
}

// takeWalsender returns the replication connection that Preflight has made, or a
// new one to the same server.
func (s *Server) takeWalsender(ctx context.Context, cfg Config) (*replicationConn, error) {
	if conn := s.walsender; conn != nil {
		s.walsender = nil
		return conn, nil
	}
	conn, err := cfg.connectReplication(ctx, s.endpoint, s.WALSenderTimeout)
	if err != nil {
		return nil, err
	}
	if err := s.recognise(ctx, cfg, conn); err != nil {
		conn.giveUp()
		return nil, err
	}
	return conn, nil
}

// recognise checks that conn leads to the server itself.
func (s *Server) recognise(ctx context.Context, cfg Config, conn *replicationConn) error {
	var system pglogrepl.IdentifySystemResult
	err := cfg.answered(ctx, func(ctx context.Context) (err error) {
		system, err = pglogrepl.IdentifySystem(ctx, conn.PgConn)
		return err
	})
	if err != nil {
		return fmt.Errorf("identify the server: %w", err)
	}
	if system.SystemID != s.SystemID {
		return fmt.Errorf("the server at %s is another one than a moment ago (system identifier %s, was %s)",
			conn.dialer.reached.address, system.SystemID, s.SystemID)
	}
	return nil
}

// giveUp closes a connection on which a command may be under way: the library
// goes on to wait for its end in the background, and the server might give us
// the slot.
func (rc *replicationConn) giveUp() {
	closeQuietly(rc.PgConn)
	rc.Conn().Close()
}

// start begins to stream, as soon as the slot is free, and returns where the
// slot stood. Nothing but a crash of the server, which ends this connection
// too, moves a slot back, so what it returns is never ahead of the slot.
func start(ctx context.Context, cfg Config, srv *Server, conn *replicationConn) (pglogrepl.LSN, error) {
	wait := waiter{cfg: cfg}
	for {
		slot, err := lookAt(ctx, cfg, conn)
		if err != nil {
			return 0, err
		}
		if err := slot.usable(); err != nil {
			return 0, err
		}
		if slot.ActivePID == 0 {
			err = cfg.answered(ctx, func(ctx context.Context) error { return startReplication(ctx, conn.PgConn, cfg) })
			if !isCode(err, "55006") {
				return slot.Confirmed, err
			}
			// Somebody was faster.
			if slot, err = lookAt(ctx, cfg, conn); err != nil {
				return 0, err
			}
		}
		// The slot may come free after days. A guard is opened then.
		srv.leaveQuestions()
		if err := wait.busy(ctx, slot); err != nil {
			return 0, err
		}
	}
}

func lookAt(ctx context.Context, cfg Config, conn *replicationConn) (slot Slot, err error) {
	err = cfg.answered(ctx, func(ctx context.Context) (err error) {
		slot, err = readSlotSimple(ctx, conn.PgConn, cfg.Slot)
		return err
	})
	return slot, err
}

// answered runs a command on a connection that does not stream yet. A server
// that does not answer it must not hold us up for ever: one that waits for the
// slot would not notice that it is free.
func (c Config) answered(ctx context.Context, command func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, c.silenceTimeout())
	defer cancel()
	err := command(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: no answer for %s before the stream of slot %q began", ErrSilent, c.silenceTimeout(), c.Slot)
	}
	return err
}

// startReplication sends START_REPLICATION and waits for the stream to begin.
// After an error of the server the connection can be used again.
func startReplication(ctx context.Context, conn *pgconn.PgConn, cfg Config) error {
	sql := fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL 0/0 (proto_version '1', publication_names %s%s)",
		quoteIdentifier(cfg.Slot), quoteLiteral(quoteIdentifier(cfg.Publication)), cfg.messagesOption())
	conn.Frontend().SendQuery(&pgproto3.Query{String: sql})
	if err := conn.Frontend().Flush(); err != nil {
		return fmt.Errorf("start replication on slot %q: %w", cfg.Slot, err)
	}
	var refused error
	for {
		msg, err := conn.ReceiveMessage(ctx)
		if err != nil {
			if refused != nil {
				return refused // the server closed the connection behind it
			}
			return fmt.Errorf("start replication on slot %q: %w", cfg.Slot, err)
		}
		switch msg := msg.(type) {
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			refused = fmt.Errorf("start replication on slot %q: %w", cfg.Slot, pgconn.ErrorResponseToPgError(msg))
		case *pgproto3.ReadyForQuery:
			if refused == nil {
				refused = fmt.Errorf("start replication on slot %q: the server did not begin to stream", cfg.Slot)
			}
			return refused
		}
	}
}

// Holder is the connection that holds a slot.
type Holder struct {
	Slot string
	PID  uint32 // 0 if it has just gone or just come
}

// waiter waits for a slot that another connection holds.
type waiter struct {
	cfg    Config
	began  bool
	holder uint32
	said   time.Time
}

// busy says who holds the slot, the first time and when that changes, and
// waits a moment.
func (w *waiter) busy(ctx context.Context, slot Slot) error {
	if w.cfg.NoWait && slot.ActivePID != 0 {
		return fault(ErrBusy, "slot %q is in use by process %d of the server; end it, or run without --no-wait", slot.Name, slot.ActivePID)
	}
	if w.cfg.Watch != nil {
		w.cfg.Watch(slot)
	}
	changed := slot.ActivePID != w.holder && slot.ActivePID != 0
	if !w.began || changed {
		w.began, w.holder = true, slot.ActivePID
		if w.cfg.Waiting != nil {
			w.cfg.Waiting(Holder{Slot: slot.Name, PID: slot.ActivePID})
		}
	}
	if now := time.Now(); changed || now.Sub(w.said) >= busyRemind {
		w.said = now
		w.cfg.log().Info("waiting for the slot, another process holds it", "slot", slot.Name, "holder_pid", slot.ActivePID)
	}
	return sleep(ctx, busyPoll)
}

// sleep waits for d, or returns the cause of ctx if that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeQuietly closes a connection of which nothing is wanted any more.
func closeQuietly(conn interface{ Close(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}

func isCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	for _, code := range codes {
		if strings.EqualFold(pgErr.Code, code) {
			return true
		}
	}
	return false
}

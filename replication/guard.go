package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

const (
	// maxProofAge is the longest time that a proof of ownership counts.
	maxProofAge = 10 * time.Second
	// guardInterval is how often the guard asks by itself. It also decides how
	// soon we notice that the server wants to stop.
	guardInterval = time.Second
)

// Guard watches a session from outside, on an ordinary connection to the very
// server that the stream comes from: whether the slot is still held by the
// stream's walsender, and whether our tables are still published. An answer on
// the stream itself would prove nothing: after a freeze, megabytes of old
// messages still look fresh. The guard never writes.
//
// Any goroutine may call its methods.
type Guard struct {
	cfg    Config
	pid    uint32
	limit  time.Duration
	tables []decoder.Table
	watch  slotWatch // belongs to Run

	// version is the server's server_version_num. began is what the first proof
	// was: the position of the slot, and when it was asked for.
	version int
	began   struct {
		position pglogrepl.LSN
		proved   time.Time
	}

	// turn holds one token; who has it may use conn.
	turn chan struct{}
	conn *pgx.Conn
}

// OpenGuard opens the guard of a stream and proves that the slot is held. It
// goes on with the connection of Preflight, unless the slot was waited for. The
// caller closes it.
func OpenGuard(ctx context.Context, cfg Config, srv *Server, s *Stream) (*Guard, error) {
	conn := srv.conn
	if srv.conn = nil; conn == nil {
		var err error
		if conn, _, err = cfg.connect(ctx, s.endpoint); err != nil {
			return nil, fmt.Errorf("open the guard connection: %w", err)
		}
	}
	g := &Guard{
		cfg:     cfg,
		pid:     s.pid,
		limit:   proofLimit(srv.WALSenderTimeout),
		tables:  srv.Tables,
		version: srv.Version,
		turn:    make(chan struct{}, 1),
		conn:    conn,
	}
	g.watch = slotWatch{guard: g, received: s.Received}
	g.turn <- struct{}{}
	if err := g.begin(ctx); err != nil {
		g.Close()
		if errors.Is(err, ErrNotOwner) {
			err = s.lastWords(ctx, err)
		}
		return nil, err
	}
	return g, nil
}

// begin is the first proof. It notes where the slot stands: this session has not
// moved it yet.
func (g *Guard) begin(ctx context.Context) error {
	return g.query(ctx, func(ctx context.Context) error {
		sent := time.Now()
		slot, err := ShowSlot(ctx, g.conn, g.cfg.Slot)
		if err != nil {
			return err
		}
		if err := g.ours(slot.ActivePID); err != nil {
			return err
		}
		g.began.position, g.began.proved = slot.Confirmed, sent
		return nil
	})
}

// ours returns ErrNotOwner unless pid is our walsender.
func (g *Guard) ours(pid uint32) error {
	if pid != g.pid {
		return fmt.Errorf("%w: slot %q is held by process %d, our walsender is %d", ErrNotOwner, g.cfg.Slot, pid, g.pid)
	}
	return nil
}

// proofLimit returns how long a proof counts: the server gives the slot to
// another no sooner than wal_sender_timeout after it last heard from us.
func proofLimit(walSenderTimeout time.Duration) time.Duration {
	if walSenderTimeout == 0 {
		return maxProofAge
	}
	return min(walSenderTimeout/2, maxProofAge)
}

// Limit returns how long a proof counts, from the moment that its query was
// sent.
func (g *Guard) Limit() time.Duration { return g.limit }

// Run asks again and again, so that the proof stays fresh, looks at the slot
// every few seconds, and at the tables every Config.MembershipInterval. It
// returns why the session must end: ErrNotOwner, a fault, or the connection's
// error; nil if ctx has ended.
func (g *Guard) Run(ctx context.Context) error {
	interval := min(guardInterval, g.limit/3)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	members := time.Now().Add(g.cfg.membershipInterval())
	slot := time.Now().Add(watchInterval)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		_, err := g.Prove(ctx)
		if err == nil && !time.Now().Before(members) {
			err = g.membership(ctx)
			members = time.Now().Add(g.cfg.membershipInterval())
		}
		if err == nil && !time.Now().Before(slot) {
			err = g.watch.look(ctx)
			slot = time.Now().Add(watchInterval)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Prove asks the server now whether the slot is held by our walsender. sent is
// when the question was sent: the proof's age counts from there.
func (g *Guard) Prove(ctx context.Context) (sent time.Time, err error) {
	err = g.query(ctx, func(ctx context.Context) error {
		sent = time.Now()
		var pid uint32
		err := g.conn.QueryRow(ctx, "SELECT coalesce(active_pid, 0)::int8 FROM pg_replication_slots WHERE slot_name = $1", g.cfg.Slot).Scan(&pid)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return errNoSlot(g.cfg.Slot)
		case err != nil:
			return fmt.Errorf("ask who holds slot %q: %w", g.cfg.Slot, err)
		}
		return g.ours(pid)
	})
	return sent, err
}

// Began returns where the slot stood when it was first proved to be held, and
// when that proof was asked for.
func (g *Guard) Began() (position pglogrepl.LSN, proved time.Time) {
	return g.began.position, g.began.proved
}

// Ask runs f with the connection of the guard. It must not write, and not keep
// the connection.
func (g *Guard) Ask(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	return g.query(ctx, func(ctx context.Context) error { return f(ctx, g.conn) })
}

// WALEnd returns the end of the server's WAL.
func (g *Guard) WALEnd(ctx context.Context) (lsn pglogrepl.LSN, err error) {
	err = g.query(ctx, func(ctx context.Context) error {
		lsn, err = walEnd(ctx, g.conn)
		return err
	})
	return lsn, err
}

// membership checks that every table is where it was and is published. A table
// that is renamed, moved or taken out of the publication gives no error in the
// stream at all.
func (g *Guard) membership(ctx context.Context) error {
	return g.query(ctx, func(ctx context.Context) error {
		var questions []question
		for _, t := range g.tables {
			questions = append(questions, memberQuestion(g.version, g.cfg.Publication, t.OID))
		}
		for i, found := range askTogether(ctx, g.conn, questions...) {
			if err := g.cfg.stillPublished(found, g.tables[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// stillPublished checks one table, by its OID.
func (c Config) stillPublished(found answer, t decoder.Table) error {
	m, err := memberIn(found, t.OID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fault(ErrGap, "table %s was dropped while it was streamed; rows may be missing: create it again or take it out of %s, and publish again what is missing", t, c.namedIn(t))
	case err != nil:
		return fmt.Errorf("look whether table %s is published: %w", t, err)
	case m.Table.String() != t.String():
		return fault(ErrGap, "table %s is now %s; rename it back or correct %s: rows written to another table of the old name are not published", t, m.Table, c.namedIn(t))
	case !m.Published:
		return fault(ErrGap, "publication %q no longer publishes table %s; rows may be missing: add it with \"outbox-cdc publication create\" and publish again what is missing", c.Publication, t)
	}
	return nil
}

// query runs f with the connection in hand. One that does not answer for as
// long as any proof counts is as good as none.
func (g *Guard) query(ctx context.Context, f func(context.Context) error) error {
	select {
	case <-g.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { g.turn <- struct{}{} }()
	ctx, cancel := context.WithTimeout(ctx, maxProofAge)
	defer cancel()
	return f(ctx)
}

// Close closes the connection, after the query that runs.
func (g *Guard) Close() {
	<-g.turn
	closeQuietly(g.conn)
	g.turn <- struct{}{}
}

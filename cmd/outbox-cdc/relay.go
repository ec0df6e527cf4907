package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// preflightTimeout is how long the checks before a session may take: each is a
// query of the catalogue.
const preflightTimeout = 30 * time.Second

// relay is what outlives a session. It belongs to the goroutine that runs the
// sessions.
type relay struct {
	log             *slog.Logger
	health          *health
	source          replication.Config
	publisher       *publisher.Publisher
	letters         *publisher.DeadLetters // nil if poison events halt
	pool            *decoder.Pool
	hard            context.Context // ends when the process has to leave at once
	crash           func()          // deferred by each goroutine
	shutdownTimeout time.Duration

	// connected says that Kafka has been reached, and that poison events can
	// be set aside.
	connected bool
	// recordable says that the record of the slot could be read.
	recordable bool
	memory     checkpoint.Memory
	// said holds the remarks that were logged already: most of them would come
	// again with each session.
	said map[string]bool
}

// session runs one session. It returns nil if ctx ended it and everything was
// left in order. up is called when it is up, or waits for the slot.
func (r *relay) session(ctx context.Context, up func()) error {
	source := r.source
	source.Streamed = r.streamed
	source.Waiting = func(holder replication.Holder) {
		r.health.standby(holder.PID)
		up()
	}
	source.Watch, source.HeldBack = r.health.sawSlot, r.health.isHeldBack
	srv, err := r.look(ctx, source)
	if err != nil {
		return err
	}
	defer srv.Close()
	if err := r.check(ctx, srv); err != nil {
		return err
	}
	for _, warning := range srv.Warnings {
		r.warnOnce(warning)
	}
	stream, err := replication.OpenStream(ctx, source, srv, r.pool)
	if err != nil {
		return r.unanswered(ctx, err)
	}
	defer stream.Close()
	guard, err := replication.OpenGuard(ctx, source, srv, stream)
	if err != nil {
		return err
	}
	defer guard.Close()
	s, err := r.begin(ctx, srv, stream, guard)
	if err != nil {
		return err
	}
	r.health.active(s.info)
	up()
	return s.run(ctx)
}

// look looks at PostgreSQL, and the first time reaches for Kafka meanwhile. What
// is wrong with PostgreSQL is told first, and at once.
func (r *relay) look(ctx context.Context, source replication.Config) (*replication.Server, error) {
	if r.connected {
		return r.preflight(ctx, source)
	}
	reaching, giveUp := context.WithCancel(ctx)
	defer giveUp()
	reached := make(chan error, 1)
	go func() {
		defer r.crash()
		reached <- r.publisher.Reach(reaching)
	}()
	srv, err := r.preflight(ctx, source)
	if err != nil {
		giveUp()
		<-reached
		return nil, err
	}
	if err := <-reached; err != nil {
		srv.Close()
		return nil, err
	}
	return srv, nil
}

// preflight looks whether everything is right. A server that says nothing must
// not hold up the next attempt for ever: another host of the DSN may answer.
func (r *relay) preflight(ctx context.Context, source replication.Config) (*replication.Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, preflightTimeout, errTooLate)
	defer cancel()
	srv, err := replication.Preflight(ctx, source)
	if err != nil {
		return nil, r.unanswered(ctx, err)
	}
	r.health.sawSlot(srv.Slot)
	return srv, nil
}

// unansweredError is a server that said nothing until we lost patience.
type unansweredError struct {
	where string
	cause error
}

func (e *unansweredError) Error() string {
	return fmt.Sprintf("PostgreSQL at %s does not answer; check --dsn, the network, and that the server runs", e.where)
}

func (e *unansweredError) Unwrap() []error { return []error{replication.ErrUnreachable, e.cause} }

// unanswered names the server where err says no more than that ctx has ended. A
// fault says what was waited for until then.
func (r *relay) unanswered(ctx context.Context, err error) error {
	var known *replication.Fault
	if !interrupted(ctx, err) || errors.As(err, &known) {
		return err
	}
	where := "the address of --dsn"
	if to := resolveDSN(r.source.DSN); to != nil {
		where = to.Hosts[0]
	}
	return &unansweredError{where: where, cause: err}
}

// check does once, before the slot is touched, what does not belong to any
// session: while Kafka is down another process may have the slot.
func (r *relay) check(ctx context.Context, srv *replication.Server) error {
	if r.connected {
		return nil
	}
	if err := r.publisher.CheckTopics(ctx); err != nil {
		return err
	}
	if r.letters != nil {
		ctx, cancel := context.WithTimeoutCause(ctx, preflightTimeout, errTooLate)
		defer cancel()
		if err := srv.Ask(ctx, r.letters.Check); err != nil {
			return r.unanswered(ctx, err)
		}
	}
	r.connected = true
	return nil
}

// begin judges the record of the slot, now that nobody else can move it, and
// before this session sends or confirms anything.
func (r *relay) begin(ctx context.Context, srv *replication.Server, stream *replication.Stream, guard *replication.Guard) (*session, error) {
	position, _ := guard.Began()
	record, err := r.record(ctx, guard)
	if err != nil {
		return nil, err
	}
	warning, err := checkpoint.Judge(record, position, srv.SystemID, r.memory)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		r.log.Warn(warning)
	}
	id := checkpoint.NewSession()
	s := &session{relay: r, srv: srv, stream: stream, guard: guard, recorded: make(chan struct{})}
	s.info = sessionInfo{id: id, pid: stream.PID(), started: time.Now(), received: stream.Received, confirmed: stream.Flushed}
	if r.recordable {
		s.recorder = &checkpoint.Recorder{
			Open:   r.source.Connect,
			Schema: r.schema(),
			Record: checkpoint.Record{
				Slot: r.source.Slot, Confirmed: position, SystemID: srv.SystemID, Timeline: srv.Timeline,
				Session: id, Tables: r.tables(),
			},
			Latest: s.latest,
			Log:    r.log,
		}
	}
	r.memory.Began(id, position)
	r.log.Info("session started", "slot", r.source.Slot, "from", position.String(), "walsender_pid", stream.PID(), "session", id)
	return s, nil
}

// record reads the record of the slot; nil if there is none.
func (r *relay) record(ctx context.Context, guard *replication.Guard) (record *checkpoint.Record, err error) {
	err = guard.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		record, err = r.load(ctx, conn)
		return err
	})
	return record, r.unanswered(ctx, err)
}

// load reads the record of the slot. Without the right to, the session does
// without.
func (r *relay) load(ctx context.Context, conn *pgx.Conn) (*checkpoint.Record, error) {
	record, err := checkpoint.Load(ctx, conn, r.schema(), r.source.Slot)
	r.recordable = err == nil
	if errors.Is(err, checkpoint.ErrUnavailable) {
		r.warnOnce(oneLine(err.Error()))
		return nil, nil
	}
	return record, err
}

// streamed returns the tables that the slot is known to have streamed.
func (r *relay) streamed(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	record, err := r.load(ctx, conn)
	if record == nil || err != nil {
		return nil, err
	}
	return record.Tables, nil
}

// schema is where the support tables are.
func (r *relay) schema() string { return supportOf(r.source.Tables).Schema }

func (r *relay) tables() []string {
	names := make([]string, len(r.source.Tables))
	for i, t := range r.source.Tables {
		names[i] = t.String()
	}
	return names
}

// warnOnce logs a remark that would come again with each session.
func (r *relay) warnOnce(remark string) {
	if r.said == nil {
		r.said = make(map[string]bool)
	}
	if !r.said[remark] {
		r.said[remark] = true
		r.log.Warn(remark)
	}
}

// origin is what decides, beside slot and routing, which position an event has.
func (r *relay) origin() string {
	options := fmt.Sprintf("proto_version=1 publication_names=%q", r.source.Publication)
	if r.source.MessagePrefix != "" {
		options += fmt.Sprintf(" messages=%q", r.source.MessagePrefix) // those of any prefix count in a position
	}
	return options
}

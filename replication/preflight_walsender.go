package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
)

// attempted is what came of an attempt to open a replication connection.
type attempted struct {
	conn *replicationConn
	err  error
}

func (p *preflight) attempt(ctx context.Context) attempted {
	conn, err := p.cfg.connectReplication(ctx, p.srv.endpoint, p.srv.WALSenderTimeout)
	return attempted{conn, err}
}

// replication makes sure of a replication connection: attributes of the role do
// not tell the truth on every service. waited says that there was none to be had
// for a while.
func (p *preflight) replication(ctx context.Context, made attempted) (waited bool, err error) {
	waited, made = p.walsender(ctx, made)
	if made.err != nil {
		return waited, made.err
	}
	p.srv.walsender = made.conn
	system, err := pglogrepl.IdentifySystem(ctx, made.conn.PgConn)
	if isCode(err, "42601") {
		// A pooler that ignores what was asked for at the start, and a server
		// behind it that takes the command for SQL.
		return waited, poolerFault(p.srv.endpoint.address).because(err)
	}
	if err != nil {
		return waited, fmt.Errorf("identify the server: %w", err)
	}
	p.srv.SystemID, p.srv.Timeline, p.srv.WALEnd = system.SystemID, system.Timeline, system.XLogPos
	return waited, nil
}

// walsender goes on trying if the server had no walsender to give. A caller that
// wants to be told what holds it up (Config.HeldBack) waits: that is the doing of
// others, and can last.
func (p *preflight) walsender(ctx context.Context, made attempted) (waited bool, last attempted) {
	var waiting *Fault
	for ; isCode(made.err, "53300"); made = p.attempt(ctx) {
		if waiting == nil {
			waiting = p.noWalsender(ctx, made.err)
			if p.cfg.HeldBack == nil {
				return false, attempted{err: waiting}
			}
			p.cfg.HeldBack(waiting.Message)
			p.cfg.log().Warn("waiting for a walsender", "slot", p.cfg.Slot, "reason", waiting.Message)
		}
		if err := p.awaitWalsender(ctx, waiting); err != nil {
			return true, attempted{err: err}
		}
	}
	if waiting != nil {
		p.cfg.HeldBack("")
	}
	return waiting != nil, made
}

// noWalsender says who has the walsenders.
func (p *preflight) noWalsender(ctx context.Context, cause error) *Fault {
	var limit, holders string
	err := p.conn.QueryRow(ctx, `SELECT current_setting('max_wal_senders'),
  (SELECT coalesce(string_agg(format('%s (pid %s)', application_name, pid), ', ' ORDER BY pid), 'nobody that this user may see') FROM pg_stat_replication)`).Scan(&limit, &holders)
	if err != nil {
		return fault(ErrUnreachable, "every walsender of the server is taken; end one that is not needed, or raise max_wal_senders and restart the server").because(cause)
	}
	return fault(ErrUnreachable, "every walsender of the server is taken (max_wal_senders = %s: %s); end one that is not needed, or raise the limit and restart the server", limit, holders)
}

// awaitWalsender waits until one is free, or returns the fault. The look is a
// query: a connection that is refused would fill the server's log.
func (p *preflight) awaitWalsender(ctx context.Context, waiting *Fault) error {
	tick := time.NewTicker(busyPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return waiting.because(context.Cause(ctx))
		}
		var free bool
		err := p.conn.QueryRow(ctx, "SELECT count(*) < current_setting('max_wal_senders')::int FROM pg_stat_replication").Scan(&free)
		switch {
		case ctx.Err() != nil:
			return waiting.because(context.Cause(ctx))
		case err != nil:
			return waiting.because(err)
		case free:
			return nil
		}
	}
}

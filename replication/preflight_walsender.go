package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
)

// replication tries a replication connection: attributes of the role do not
// tell the truth on every service.
func (p *preflight) replication(ctx context.Context) error {
	conn, err := p.walsender(ctx)
	if err != nil {
		return err
	}
	defer conn.leave()
	system, err := pglogrepl.IdentifySystem(ctx, conn.PgConn)
	if isCode(err, "42601") {
		// A pooler that ignores what was asked for at the start, and a server
		// behind it that takes the command for SQL.
		return poolerFault(p.srv.endpoint.address).because(err)
	}
	if err != nil {
		return fmt.Errorf("identify the server: %w", err)
	}
	p.srv.SystemID, p.srv.Timeline, p.srv.WALEnd = system.SystemID, system.Timeline, system.XLogPos
	return nil
}

// walsender opens a replication connection. A caller that wants to be told what
// holds it up (Config.HeldBack) waits while the server has none to give: that is
// the doing of others, and can last.
func (p *preflight) walsender(ctx context.Context) (*replicationConn, error) {
	var waiting *Fault
	for {
		conn, err := p.cfg.connectReplication(ctx, p.srv.endpoint, p.srv.WALSenderTimeout, nil)
		if !isCode(err, "53300") {
			if waiting != nil {
				p.cfg.HeldBack("")
			}
			return conn, err
		}
		if waiting == nil {
			waiting = p.noWalsender(ctx, err)
			if p.cfg.HeldBack == nil {
				return nil, waiting
			}
			p.cfg.HeldBack(waiting.Message)
			p.cfg.log().Warn("waiting for a walsender", "slot", p.cfg.Slot, "reason", waiting.Message)
		}
		if err := p.awaitWalsender(ctx, waiting); err != nil {
			return nil, err
		}
	}
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

//go:build linux || darwin

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// postgresFaults happen to the database server.
func postgresFaults() []*fault {
	on := []thing{thePostgres}
	return []*fault{
		{
			name: "PostgreSQL crashed", weight: 2, on: on, standing: true, forgets: true, does: "pg_ctl stop -m immediate, and started",
			inject: func(x *torture, _ *rand.Rand) func() { x.restartPostgres(harness.Immediate); return nil },
		},
		{
			name: "PostgreSQL restarted", weight: 2, on: on, standing: true, forgets: true, does: "pg_ctl stop -m fast, and started",
			inject: func(x *torture, _ *rand.Rand) func() { x.restartPostgres(harness.Fast); return nil },
		},
		{
			name: "walsender ended", weight: 4, on: on, standing: true, does: "pg_terminate_backend",
			inject: func(x *torture, _ *rand.Rand) func() {
				if pid := x.o.walsender(); pid != 0 {
					x.o.exec("SELECT pg_terminate_backend($1)", pid)
				}
				return nil
			},
		},
		{
			name: "walsender frozen", weight: 2, on: on, does: "SIGSTOP", undone: "SIGCONT",
			inject: func(x *torture, _ *rand.Rand) func() {
				pid := x.o.walsender()
				if pid == 0 {
					return nil
				}
				x.must(harness.PausePID(pid))
				return func() { x.must(harness.ResumePID(pid)) }
			},
		},
		{
			name: "slot held by another", weight: 3, on: on, does: "a client takes the slot as soon as the relay's walsender is ended, and reads nothing",
			undone: "it leaves", inject: (*torture).holdSlot,
		},
	}
}

func (x *torture) restartPostgres(mode harness.StopMode) {
	x.o.t.Helper()
	ctx, cancel := context.WithTimeout(x.o.t.Context(), time.Minute)
	defer cancel()
	x.must(x.o.pg.Restart(ctx, mode))
}

// holdSlot takes the slot away from the relay, which waits until it is free.
func (x *torture) holdSlot(*rand.Rand) func() {
	x.o.t.Helper()
	ctx := x.o.t.Context()
	conn, err := pgconn.Connect(ctx, x.o.pg.DSN(x.o.database)+"&replication=database&wal_sender_timeout=0")
	x.must(err)
	options := pglogrepl.StartReplicationOptions{PluginArgs: []string{"proto_version '1'", fmt.Sprintf("publication_names '%s'", x.o.publication)}}
	harness.Eventually(x.o.t, patience, func() error {
		if pid := x.o.walsender(); pid != 0 {
			x.o.exec("SELECT pg_terminate_backend($1)", pid)
		}
		return pglogrepl.StartReplication(ctx, conn, x.o.slot, 0, options)
	})
	return func() {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it has much to read that it does not want
	}
}

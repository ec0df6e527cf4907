//go:build linux || darwin

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// waitingForWalsender is what the relay logs while every walsender is taken.
const waitingForWalsender = "waiting for a walsender"

// takeWalsender opens a replication connection, as any standby or backup does.
func takeWalsender(t *testing.T, pg *harness.Postgres, application string) *pgconn.PgConn {
	t.Helper()
	var conn *pgconn.PgConn
	harness.Eventually(t, patience, func() (err error) {
		conn, err = pgconn.Connect(t.Context(), pg.DSN("postgres")+"&replication=true&application_name="+application)
		return err
	})
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// TestSlotWaitsForAWalsender has others take every walsender of the server:
// before the relay starts, and again while it runs, where it loses its own. It
// says who has them and goes on within seconds once one is free.
//
// Behaviours: S22
func TestSlotWaitsForAWalsender(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"max_wal_senders": "2"}})
	o := newOutbox(t, outboxConfig{postgres: pg})
	takeWalsender(t, pg, "backup")
	other := takeWalsender(t, pg, "standby-1")
	o.insert(5)
	o.launch("--start-timeout", "1s").expectExit(patience, exitPostgres, "max_wal_senders = 2", "backup (pid ", "standby-1 (pid ", "--start-timeout")

	r := o.launch(serving...)
	who := []string{"max_wal_senders = 2", "backup (pid ", "standby-1 (pid "}
	r.awaitUnready(patience, who...)
	r.mustLive()
	reason := r.log(waitingForWalsender)[0].text("reason")
	for _, text := range who {
		if !strings.Contains(reason, text) {
			t.Errorf("the reason does not hold %q: %s", text, reason)
		}
	}
	other.Close(t.Context())
	r.awaitLogWithin(5*time.Second, "session started", 1)
	o.awaitDrained()

	// Only a backend that waits for the place gets it before the relay comes
	// back for it.
	taken := make(chan *pgconn.PgConn)
	go func() {
		defer close(taken)
		for t.Context().Err() == nil {
			conn, err := pgconn.Connect(t.Context(), pg.DSN("postgres")+"&replication=true&application_name=standby-2")
			if err == nil {
				taken <- conn
				return
			}
		}
	}()
	o.exec("SELECT pg_terminate_backend($1)", o.walsender())
	again := <-taken
	o.insert(5)
	r.awaitLog(waitingForWalsender, 2)
	again.Close(t.Context())
	r.awaitLogWithin(5*time.Second, "session started", 2)
	r.awaitReady("active")
	o.insert(5)
	o.awaitDrained()
	r.stop()
	o.verify()
}

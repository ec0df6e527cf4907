//go:build linux || darwin

package main

import (
	"context"
	"net/url"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestCommandsWithoutRights runs every command as a role that may do nothing but
// log in. Each is refused by the server, and says what it takes.
func TestCommandsWithoutRights(t *testing.T) {
	server := harness.SharedPostgres(t)
	s := newShopOn(t, server)
	s.want(codeOK, "init")
	s.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	role := harness.Name(t)
	s.sql("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() { s.sqlAfter("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	t.Setenv("OUTBOX_CDC_DSN", server.DSNVia(server.Addr(), url.User(role), s.conn.Config().Database))
	replication := `ALTER ROLE "` + role + `" REPLICATION`
	s.want(codeOK, "slot list", s.slot)
	s.want(codeOK, "slot show", s.slot)
	s.want(codeOK, "publication show", "sends insert")
	s.want(codeDenied, "slot create --slot "+s.slot+"_other", replication)
	s.want(codeDenied, "slot advance --to now --yes", replication)
	s.want(codeUsage, "slot drop --yes", "gap detection is off", "has no record of outbox-cdc")
	s.want(codeDenied, "slot drop --yes --force", "was not dropped", "REPLICATION attribute", "pg_signal_backend")
	s.want(codeDenied, "publication create --publication other", "takes the owner of the tables, and CREATE on the database")
	s.want(codeDenied, "publication drop --yes", "takes the owner")
	s.want(codeDenied, "init --table others", "CREATE on the schema")

	// The holder of another user is not theirs to end, either.
	s.sql("ALTER ROLE " + role + " REPLICATION")
	holder, err := server.Connect(t.Context(), s.conn.Config().Database)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	held := s.slot + "_held"
	if _, err := holder.Exec(t.Context(), "SELECT pg_create_logical_replication_slot($1, 'pgoutput', true)", held); err != nil {
		t.Fatal(err)
	}
	s.want(codeDenied, "slot drop --yes --force --slot "+held, "pg_signal_backend")
	s.want(codeOK, "slot create --slot "+s.slot+"_other", "created at ")
	s.want(codeOK, "slot advance --to now --yes --slot "+s.slot+"_other", "moved from ")
}

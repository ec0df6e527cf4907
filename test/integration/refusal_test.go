//go:build linux || darwin

package integration

import (
	"net/url"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// The exit codes of what a person has to put right.
const (
	exitUsage    = 2
	exitPostgres = 4
	exitKafka    = 5
	exitDenied   = 9
)

// passwords must never be printed.
const rightPassword, wrongPassword = "correct horse", "battery staple"

// refusal is a start that the relay has to refuse.
type refusal struct {
	name string
	// spoil is executed in the database first, restore before the oracle looks
	// at it.
	spoil, restore string
	flags          func(*outbox) []string
	code           int
	texts          []string // in the line for the operator
}

// refusals are all that can be wrong with servers that are there.
var refusals = []refusal{
	{
		name:  "database server unreachable",
		flags: func(o *outbox) []string { return []string{"--dsn", o.nowhere(), "--start-timeout", "2s"} },
		code:  exitPostgres, texts: []string{"127.0.0.1"},
	},
	{
		name:  "wrong password",
		flags: func(o *outbox) []string { return []string{"--dsn", o.guarded(wrongPassword)} },
		code:  exitDenied, texts: []string{"guarded", "password"},
	},
	{
		name:  "database missing",
		flags: func(o *outbox) []string { return []string{"--dsn", o.pg.DSN("nowhere")} },
		code:  exitUsage, texts: []string{"nowhere"},
	},
	{
		name:  "slot missing",
		flags: func(*outbox) []string { return []string{"--slot", "other"} },
		code:  exitGap, texts: []string{`"other"`, "outbox-cdc slot create"},
	},
	{
		name:  "slot of another plugin",
		flags: func(o *outbox) []string { return []string{"--slot", o.ledger.slot} },
		code:  exitUsage, texts: []string{"test_decoding", "pgoutput", "outbox-cdc slot create"},
	},
	{
		name:  "publication missing",
		flags: func(*outbox) []string { return []string{"--publication", "other"} },
		code:  exitUsage, texts: []string{`"other"`, "outbox-cdc publication create"},
	},
	{
		name:  "publication dropped",
		spoil: "DROP PUBLICATION outbox_cdc",
		code:  exitUsage, texts: []string{`"outbox_cdc"`, "outbox-cdc publication create"},
	},
	{
		name:  "publication without inserts",
		spoil: "ALTER PUBLICATION outbox_cdc SET (publish = 'update')",
		code:  exitUsage, texts: []string{`"outbox_cdc"`, "ALTER PUBLICATION"},
	},
	{
		name:  "table missing",
		flags: func(*outbox) []string { return []string{"--table", "public.other"} },
		code:  exitUsage, texts: []string{`"other"`, "outbox-cdc init", "--table"},
	},
	{
		name:  "table not published",
		spoil: "ALTER PUBLICATION outbox_cdc DROP TABLE outbox_events",
		code:  exitUsage, texts: []string{`"outbox_events"`, "outbox-cdc publication create"},
	},
	{
		name:    "column missing",
		spoil:   "ALTER TABLE outbox_events RENAME COLUMN payload TO body",
		restore: "ALTER TABLE outbox_events RENAME COLUMN body TO payload",
		code:    exitUsage, texts: []string{`"outbox_events"`, "payload"},
	},
	{
		name:  "brokers unreachable",
		flags: func(*outbox) []string { return []string{"--brokers", "127.0.0.1:1", "--start-timeout", "2s"} },
		code:  exitKafka, texts: []string{"127.0.0.1:1"},
	},
}

// nowhere is the connection string of a server that is not there.
func (o *outbox) nowhere() string {
	proxy := harness.NewProxy(o.t, o.pg.Addr())
	proxy.Refuse()
	return o.pg.DSNVia(proxy.Addr(), superuser, o.database)
}

// guarded is the connection string of the role that needs a password.
func (o *outbox) guarded(password string) string {
	return o.pg.DSNVia(o.pg.Addr(), url.UserPassword("guarded", password), o.database)
}

// TestRefusal starts the relay on what is not as it was told: one line that
// names the thing and the remedy, an exit code, and nothing published or
// confirmed, though a row is waiting.
func TestRefusal(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{HBA: []string{"host all guarded 127.0.0.1/32 scram-sha-256"}})
	if err := pg.Exec(t.Context(), "postgres", "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD '"+rightPassword+"'"); err != nil {
		t.Fatal(err)
	}
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			o := newOutbox(t, outboxConfig{postgres: pg})
			o.insert(1)
			if c.spoil != "" {
				o.exec(c.spoil)
			}
			before := o.confirmed()
			var flags []string
			if c.flags != nil {
				flags = c.flags(o)
			}
			r := o.launch(flags...)
			r.expectExit(patience, c.code, c.texts...)
			if strings.Contains(r.Stderr(), wrongPassword) || strings.Contains(r.Stderr(), url.QueryEscape(wrongPassword)) {
				t.Errorf("the password is printed:\n%s", r.Stderr())
			}
			if now := o.confirmed(); now != before {
				t.Errorf("the slot was confirmed up to %s, before %s", now, before)
			}
			if n := o.held(); n != 0 {
				t.Errorf("the topics hold %d records and markers, want none", n)
			}
			if c.restore != "" {
				o.exec(c.restore)
			}
			o.verifyExcept(exceptions{incomplete: "the relay refused to start"})
		})
	}
	t.Run("nothing wrong", func(t *testing.T) {
		o := newOutbox(t, outboxConfig{postgres: pg})
		o.insert(1)
		o.start("--dsn", o.guarded(rightPassword))
		o.awaitDrained()
		o.verify()
	})
}

// TestRefusalOfAServerThatDoesNotDecode has init and run find a server without
// wal_level = logical.
func TestRefusalOfAServerThatDoesNotDecode(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"wal_level": "replica"}})
	env := []string{"OUTBOX_CDC_DSN=" + pg.DSN("postgres"), "OUTBOX_CDC_BROKERS=" + harness.SharedKafka(t, 1).Addrs()[0]}
	for _, command := range [][]string{{"init"}, {"run", "--on-poison", "halt"}} {
		result := harness.RunRelay(t, env, command...)
		expectFailure(t, result, exitUsage, "wal_level", "replica", "ALTER SYSTEM SET wal_level = logical")
	}
	tables, err := harness.QueryValue[int](t.Context(), pg, "postgres", "SELECT count(*)::int FROM pg_tables WHERE schemaname = 'public'")
	if err != nil || tables != 0 {
		t.Errorf("init has left %d tables behind (%v), want none", tables, err)
	}
}

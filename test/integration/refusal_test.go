//go:build linux || darwin

package integration

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// The exit codes of what a person has to put right.
const (
	exitUsage    = 2
	exitPostgres = 4
	exitKafka    = 5
	exitHalted   = 8
	exitDenied   = 9
)

// passwords must never be printed.
const rightPassword, wrongPassword = "correct horse", "battery staple"

// soon is how long the relay may take to find out that waiting is of no use.
const soon = 5 * time.Second

// refusal is a start that the relay has to refuse.
type refusal struct {
	name string
	// spoil is executed in the database first, restore afterwards.
	spoil, restore []string
	// flags are added to those that lead the relay to the outbox. What they
	// need is made here, and undone when the case ends.
	flags func(*outbox) []string
	code  int
	texts []string // in the line for the operator
	// waits says that the relay tries again until --start-timeout, which is a
	// second. All else has to be said soon.
	waits bool
}

// args are flags that do not depend on the outbox.
func args(flags ...string) func(*outbox) []string {
	return func(*outbox) []string { return flags }
}

// TestRefusal starts the relay on what is not as it was told: one line that
// names the thing and the remedy, an exit code, and nothing published or
// confirmed, though a row is waiting. When all is right again, the row is
// published.
//
// Behaviours: S9, S27
func TestRefusal(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{
		TLS: true, HBA: []string{"host all guarded 127.0.0.1/32 scram-sha-256", "host all banned 127.0.0.1/32 reject"},
	})
	for _, role := range []string{
		"guarded LOGIN SUPERUSER PASSWORD '" + rightPassword + "'", "banned LOGIN SUPERUSER", "unconnected LOGIN REPLICATION", "bare LOGIN",
	} {
		if err := pg.Exec(t.Context(), "postgres", "CREATE ROLE "+role); err != nil {
			t.Fatal(err)
		}
	}
	o := newOutbox(t, outboxConfig{postgres: pg})
	o.insert(1)
	for _, c := range slices.Concat(processRefusals, postgresRefusals, slotRefusals, tableRefusals) {
		t.Run(c.name, func(t *testing.T) {
			o.t = t
			c.check(t, o)
		})
	}
	o.t = t
	o.start("--dsn", o.as(url.UserPassword("guarded", rightPassword)))
	o.insert(1)
	o.awaitDrained()
	o.verify()
}

// check has the relay refuse to start.
func (c refusal) check(t *testing.T, o *outbox) {
	for _, sql := range c.spoil {
		o.exec(sql)
	}
	var flags []string
	if c.flags != nil {
		flags = c.flags(o)
	}
	if c.waits {
		flags = append(flags, "--start-timeout", "1s")
	}
	before := o.confirmed()
	begun := time.Now()
	r := o.launch(flags...)
	r.expectExit(patience, c.code, c.texts...)
	if took := time.Since(begun); took > soon {
		t.Errorf("it took %s, want at most %s", took, soon)
	}
	for _, password := range []string{wrongPassword, url.QueryEscape(wrongPassword), url.PathEscape(wrongPassword)} {
		if strings.Contains(r.Stderr(), password) {
			t.Errorf("the password is printed:\n%s", r.Stderr())
		}
	}
	if trace := "goroutine "; strings.Contains(r.Stderr(), trace) {
		t.Errorf("a stack trace is printed:\n%s", r.Stderr())
	}
	if now := o.confirmed(); now != before {
		t.Errorf("the slot was confirmed up to %s, before %s", now, before)
	}
	if n := o.held(); n != 0 {
		t.Errorf("the topics hold %d records and markers, want none", n)
	}
	for _, sql := range c.restore {
		o.exec(sql)
	}
}

// as is the connection string of another role.
func (o *outbox) as(user *url.Userinfo) string {
	return o.pg.DSNVia(o.pg.Addr(), user, o.database)
}

// processRefusals are what is wrong outside the database.
var processRefusals = []refusal{
	{
		name: "address of --http taken",
		flags: func(o *outbox) []string {
			listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
			if err != nil {
				o.t.Fatal(err)
			}
			o.t.Cleanup(func() { listener.Close() })
			return []string{"--http", listener.Addr().String()}
		},
		code: exitUsage, texts: []string{"--http 127.0.0.1:", "choose another address", "in use"},
	},
	{
		name:  "address of --http somebody else's",
		flags: args("--http", "192.0.2.1:9464"),
		code:  exitUsage, texts: []string{"--http 192.0.2.1:9464", "choose another address"},
	},
	{
		name:  "brokers unreachable",
		flags: args("--brokers", "127.0.0.1:1"), waits: true,
		code: exitKafka, texts: []string{"127.0.0.1:1"},
	},
	{
		name:  "brokers and database unreachable",
		flags: func(o *outbox) []string { return []string{"--brokers", "127.0.0.1:1", "--dsn", o.nowhere()} }, waits: true,
		code: exitPostgres, texts: []string{"127.0.0.1"},
	},
}

// nowhere is the connection string of a server that is not there.
func (o *outbox) nowhere() string {
	proxy := harness.NewProxy(o.t, o.pg.Addr())
	proxy.Refuse()
	return o.pg.DSNVia(proxy.Addr(), superuser, o.database)
}

// TestRefusalOfAServerThatDoesNotDecode has init and run find a server without
// wal_level = logical.
func TestRefusalOfAServerThatDoesNotDecode(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"wal_level": "replica"}})
	env := []string{"OUTBOX_CDC_DSN=" + pg.DSN("postgres"), "OUTBOX_CDC_BROKERS=" + harness.SharedKafka(t, 1).Addrs()[0]}
	for _, command := range []string{"init", "run"} {
		result := harness.RunRelay(t, env, command)
		expectFailure(t, result, exitUsage, "wal_level", "replica", "ALTER SYSTEM SET wal_level = logical")
	}
	tables, err := harness.QueryValue[int](t.Context(), pg, "postgres", "SELECT count(*)::int FROM pg_tables WHERE schemaname = 'public'")
	if err != nil || tables != 0 {
		t.Errorf("init has left %d tables behind (%v), want none", tables, err)
	}
}

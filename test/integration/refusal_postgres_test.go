//go:build linux || darwin

package integration

import (
	"net"
	"net/url"
	"strings"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// postgresRefusals are connections that the relay cannot make.
var postgresRefusals = []refusal{
	{
		name:  "wrong host",
		flags: func(o *outbox) []string { return []string{"--dsn", o.at(net.JoinHostPort("127.0.0.2", o.port()))} }, waits: true,
		code: exitPostgres, texts: []string{"127.0.0.2", "check --dsn"},
	},
	{
		name:  "wrong port",
		flags: func(o *outbox) []string { return []string{"--dsn", o.nowhere()} }, waits: true,
		code: exitPostgres, texts: []string{"127.0.0.1", "check --dsn"},
	},
	{
		name:  "port of something else",
		flags: func(o *outbox) []string { return []string{"--dsn", o.at(o.kafka.Addrs()[0])} }, waits: true,
		code: exitPostgres, texts: []string{"127.0.0.1", "check --dsn"},
	},
	{
		name: "server that says nothing",
		flags: func(o *outbox) []string {
			proxy := harness.NewProxy(o.t, o.pg.Addr())
			proxy.Stall(harness.BothWays)
			return []string{"--dsn", o.at(proxy.Addr())}
		}, waits: true,
		code: exitPostgres, texts: []string{"does not answer", "check --dsn"},
	},
	{
		name:  "wrong database",
		flags: func(o *outbox) []string { return []string{"--dsn", o.pg.DSN("nowhere")} },
		code:  exitUsage, texts: []string{`"nowhere"`, "create it or correct --dsn"},
	},
	{
		name:  "wrong user",
		flags: func(o *outbox) []string { return []string{"--dsn", o.as(url.User("nobody"))} },
		code:  exitDenied, texts: []string{`"nobody"`, "check user and password"},
	},
	{
		name:  "wrong password",
		flags: func(o *outbox) []string { return []string{"--dsn", o.as(url.UserPassword("guarded", wrongPassword))} },
		code:  exitDenied, texts: []string{`"guarded"`, "check user and password"},
	},
	{
		name: "wrong password while the brokers are away",
		flags: func(o *outbox) []string {
			return []string{"--dsn", o.as(url.UserPassword("guarded", wrongPassword)), "--brokers", "127.0.0.1:1"}
		},
		code: exitDenied, texts: []string{`"guarded"`, "check user and password"},
	},
	{
		name:  "not in pg_hba.conf",
		flags: func(o *outbox) []string { return []string{"--dsn", o.as(url.User("banned"))} },
		code:  exitDenied, texts: []string{`"banned"`, "pg_hba.conf"},
	},
	{
		name:  "no right to connect",
		spoil: []string{"DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database()); END $$"},
		flags: func(o *outbox) []string { return []string{"--dsn", o.as(url.User("unconnected"))} },
		code:  exitDenied, texts: []string{`"unconnected"`, "GRANT CONNECT ON DATABASE"},
		restore: []string{"DO $$ BEGIN EXECUTE format('GRANT CONNECT ON DATABASE %I TO PUBLIC', current_database()); END $$"},
	},
	{
		name:  "no right to replicate",
		flags: func(o *outbox) []string { return []string{"--dsn", o.as(url.User("bare"))} },
		code:  exitDenied, texts: []string{`"bare"`, `ALTER ROLE "bare" REPLICATION`},
	},
	{
		name: "server without TLS",
		flags: func(o *outbox) []string {
			return []string{"--dsn", withTLS(harness.SharedPostgres(o.t).DSN("postgres"), "require", "")}
		},
		code: exitDenied, texts: []string{"sslmode", "refused TLS"},
	},
	{
		name: "certificate of another authority",
		flags: func(o *outbox) []string {
			return []string{"--dsn", withTLS(o.pg.DSN(o.database), "verify-ca", o.pg.Certificates().OtherCA)}
		},
		code: exitDenied, texts: []string{"sslrootcert", "certificate"},
	},
	{
		name: "certificate of another host",
		flags: func(o *outbox) []string {
			dsn := strings.Replace(o.pg.DSN(o.database), "127.0.0.1", "0.0.0.0", 1)
			return []string{"--dsn", withTLS(dsn, "verify-full", o.pg.Certificates().CA)}
		},
		code: exitDenied, texts: []string{"sslmode", "0.0.0.0"},
	},
	{
		name: "file of certificates missing",
		flags: func(o *outbox) []string {
			return []string{"--dsn", withTLS(o.pg.DSN(o.database), "verify-ca", "nowhere.pem")}
		},
		code: exitUsage, texts: []string{"--dsn asks for TLS", "sslrootcert", "nowhere.pem"},
	},
	{
		name:  "setting that does not exist",
		flags: func(o *outbox) []string { return []string{"--dsn", o.pg.DSN(o.database) + "&colour=blue"} },
		code:  exitUsage, texts: []string{"check the parameters in --dsn", "colour"},
	},
}

// at is the connection string of the database at another address.
func (o *outbox) at(addr string) string { return o.pg.DSNVia(addr, superuser, o.database) }

// port is the port of the database server.
func (o *outbox) port() string {
	_, port, err := net.SplitHostPort(o.pg.Addr())
	if err != nil {
		o.t.Fatal(err)
	}
	return port
}

// withTLS asks for encryption in a connection string.
func withTLS(dsn, mode, authorities string) string {
	dsn = strings.Replace(dsn, "sslmode=disable", "sslmode="+mode, 1)
	if authorities != "" {
		dsn += "&sslrootcert=" + url.QueryEscape(authorities)
	}
	return dsn
}

//go:build linux || darwin

package main

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// login is one way to give a password: variables of the environment.
type login struct {
	name string
	env  func(t *testing.T, user, password string) map[string]string
}

// logins are all ways, to a server at addr.
func logins(addr string) []login {
	host, port, _ := net.SplitHostPort(addr)
	keywords := func(user string) string {
		return fmt.Sprintf("host=%s port=%s dbname=postgres user=%s", host, port, user)
	}
	one := func(name string, value func(t *testing.T, user, password string) string) func(*testing.T, string, string) map[string]string {
		return func(t *testing.T, user, password string) map[string]string {
			env := map[string]string{name: value(t, user, password)}
			if name != "OUTBOX_CDC_DSN" && name != "OUTBOX_CDC_DSN_FILE" {
				env["OUTBOX_CDC_DSN"] = keywords(user)
			}
			return env
		}
	}
	inURL := func(_ *testing.T, user, password string) string {
		u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: addr, Path: "postgres"}
		return u.String()
	}
	return []login{
		{"URL", one("OUTBOX_CDC_DSN", inURL)},
		{"parameter of a URL", one("OUTBOX_CDC_DSN", func(_ *testing.T, user, password string) string {
			return "postgres://" + user + "@" + addr + "/postgres?password=" + strings.ReplaceAll(url.QueryEscape(password), "+", "%20")
		})},
		{"keyword string", one("OUTBOX_CDC_DSN", func(_ *testing.T, user, password string) string {
			return keywords(user) + " password=" + keyword(password)
		})},
		{"file of the URL", one("OUTBOX_CDC_DSN_FILE", func(t *testing.T, user, password string) string {
			return write(t, "dsn", inURL(t, user, password)+"\n")
		})},
		{"variable", one("OUTBOX_CDC_PASSWORD", func(_ *testing.T, _, password string) string { return password })},
		{"PGPASSWORD", one("PGPASSWORD", func(_ *testing.T, _, password string) string { return password })},
		{"password file", one("PGPASSFILE", func(t *testing.T, _, password string) string {
			return write(t, "pgpass", "*:*:*:*:"+strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(password)+"\n")
		})},
		{"file of the secret", one("OUTBOX_CDC_PASSWORD_FILE", func(t *testing.T, _, password string) string { return write(t, "p", password) })},
		{"file of the secret with a newline", one("OUTBOX_CDC_PASSWORD_FILE", func(t *testing.T, _, password string) string {
			return write(t, "p", password+"\n")
		})},
		{"key of a file", one("OUTBOX_CDC_CONFIG", func(t *testing.T, _, password string) string {
			return write(t, "relay.yaml", "password: '"+strings.ReplaceAll(password, "'", "''")+"'\n")
		})},
	}
}

// Passwords of every kind open the door, whichever way they are given.
//
// Behaviours: S29
func TestPasswordsWork(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{HBA: []string{"host all +guarded 127.0.0.1/32 scram-sha-256"}})
	exec := func(sql string) {
		t.Helper()
		if err := pg.Exec(t.Context(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE ROLE guarded")
	for i, password := range awkward {
		user := fmt.Sprintf("user_%d", i)
		exec(fmt.Sprintf("CREATE ROLE %s LOGIN IN ROLE guarded PASSWORD '%s'", user, strings.ReplaceAll(password, "'", "''")))
		for _, login := range logins(pg.Addr()) {
			if login.name == "password file" && strings.TrimSpace(password) != password {
				continue // blanks at the end of a line are lost in it
			}
			t.Run(login.name+" "+password, func(t *testing.T) {
				for name, value := range login.env(t, user, password) {
					t.Setenv(name, value)
				}
				got := execute(t, "slot", "list", "-o", "json")
				if want := (outcome{out: "[]\n"}); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		}
	}
	t.Run("wrong", func(t *testing.T) {
		t.Setenv("OUTBOX_CDC_DSN", pg.DSNVia(pg.Addr(), url.UserPassword("user_0", "Zq7 wrong"), "postgres"))
		got := execute(t, "slot", "list")
		if got.code != codeDenied || strings.Contains(got.err, "Zq7") {
			t.Errorf("got %+v, want exit code %d", got, codeDenied)
		}
	})
	t.Run("option before connection string", func(t *testing.T) {
		t.Setenv("OUTBOX_CDC_DSN", pg.DSNVia(pg.Addr(), url.UserPassword("user_0", "wrong"), "postgres"))
		t.Setenv("OUTBOX_CDC_PASSWORD", awkward[0])
		if got := execute(t, "slot", "list"); got.code != codeOK {
			t.Errorf("got %+v", got)
		}
	})
}

// What libpq reads from the environment and its files counts here too.
func TestLibpq(t *testing.T) {
	pg := harness.SharedPostgres(t)
	database := harness.NewDatabase(t, pg)
	host, port, _ := net.SplitHostPort(pg.Addr())
	service := func(t *testing.T) string {
		return write(t, "services", fmt.Sprintf("[shop]\nhost=%s\nport=%s\nuser=postgres\ndbname=%s\n", host, port, database))
	}
	all := map[string]string{"PGHOST": host, "PGPORT": port, "PGUSER": "postgres", "PGDATABASE": database, "PGSSLMODE": "disable"}
	but := func(name, value string) map[string]string {
		env := map[string]string{name: value}
		for n, v := range all {
			if n != name {
				env[n] = v
			}
		}
		return env
	}
	for _, tc := range []struct {
		name string
		env  map[string]string
		dsn  string
		code int
		says string
	}{
		{"variables alone", all, "", codeOK, ""},
		{"a connection string before variables", but("PGPORT", "1"), "port=" + port, codeOK, ""},
		{"a URL without a host", all, "postgres:///" + database, codeOK, ""},
		{"a service in a variable", map[string]string{"PGSERVICE": "shop", "PGSERVICEFILE": service(t)}, "", codeOK, ""},
		{"a service in the connection string", map[string]string{"PGSERVICEFILE": service(t)}, "service=shop", codeOK, ""},
		{"a service that is not there", map[string]string{"PGSERVICE": "store", "PGSERVICEFILE": service(t)}, "", codeUsage,
			"--dsn leads to a service that cannot be read; check service in it, PGSERVICE and PGSERVICEFILE: unable to find service: store\n"},
		{"a service file that is not there", map[string]string{"PGSERVICE": "shop", "PGSERVICEFILE": filepath.Join(t.TempDir(), "none")}, "", codeUsage, "failed to read service file: "},
		{"several hosts, the first one dead", but("PGHOST", "127.0.0.1,127.0.0.1"), "port=1," + port, codeOK, ""},
		{"a URL with several hosts", nil, "postgres://postgres@127.0.0.1:1,127.0.0.1:2," + pg.Addr() + "/" + database, codeOK, ""},
		{"all hosts dead", nil, "postgres://postgres@127.0.0.1:1,127.0.0.1:2/" + database, codePostgres, "cannot reach PostgreSQL at 127.0.0.1:1, 127.0.0.1:2"},
		{"the primary", but("PGTARGETSESSIONATTRS", "read-write"), "", codeOK, ""},
		{"a standby where there is none", but("PGTARGETSESSIONATTRS", "standby"), "", codePostgres, host},
		{"more ports than hosts", all, "port=1,2,3", codeUsage, "could not match 3 port numbers to 1 hosts"},
		{"a statement mode that cannot be", all, "default_query_exec_mode=simple_protocol", codeOK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, value := range tc.env {
				t.Setenv(name, value)
			}
			t.Setenv("OUTBOX_CDC_DSN", tc.dsn)
			got := execute(t, "publication", "show", "--publication", "none", "-o", "json")
			if tc.code == codeOK {
				// The database that was meant has no publication.
				if got.code != codeUsage || !strings.Contains(got.err, `publication "none" does not exist`) {
					t.Errorf("got %+v", got)
				}
			} else if got.code != tc.code || !strings.Contains(got.err, tc.says) {
				t.Errorf("got %+v, want exit code %d and %q", got, tc.code, tc.says)
			}
		})
	}
}

package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// line returns the line of a printed configuration that begins with prefix.
func line(printed, prefix string) string {
	for l := range strings.Lines(printed) {
		if strings.HasPrefix(l, prefix) {
			return strings.TrimSuffix(l, "\n")
		}
	}
	return ""
}

func TestConfigPrint(t *testing.T) {
	secret := write(t, "sasl", "s3cret\n")
	path := write(t, "relay.yaml", "brokers:\n  - kafka-1:9092\n  - kafka-2:9092\nmax-in-flight-bytes: 65536 K\nstart-timeout: 120s\ntls: on\nsasl-user: relay\n")
	t.Setenv("OUTBOX_CDC_CONFIG", path)
	t.Setenv("OUTBOX_CDC_DSN", "postgres://relay:s3cret@db1,db2:6432/shop?sslmode=require&sslpassword=s3cret")
	t.Setenv("PGUSER", "nobody")
	got := execute(t, "config", "print", "--sasl-mechanism", "PLAIN", "--sasl-password-file", secret, "--password", "s3cret", "--fence=off", "--topic", "true")
	if got.code != codeOK || got.err != "" {
		t.Fatalf("got %+v", got)
	}
	for _, want := range []string{
		"# file " + path + ", named by environment variable OUTBOX_CDC_CONFIG",
		"dsn: postgres://relay:xxxxx@db1,db2:6432/shop?sslmode=require&sslpassword=xxxxx # environment variable OUTBOX_CDC_DSN",
		"# leads to db1:5432, db2:6432, database shop, user relay, sslmode require",
		"password: xxxxx # flag",
		"slot: outbox_cdc # default",
		"brokers: kafka-1:9092,kafka-2:9092 # " + path + ":1",
		"max-in-flight-bytes: 64MiB # " + path + ":4",
		"start-timeout: 2m # " + path + ":5",
		"tls: true # " + path + ":6",
		"fence: off # flag",
		`topic: "true" # flag`,
		"# sasl-password: xxxxx # file " + secret + ", named by flag",
		"sasl-password-file: " + secret + " # flag",
		"create-topics-partitions: 0 # default",
		`http: "" # default`,
	} {
		if !strings.Contains("\n"+got.out, "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "s3cret") {
		t.Errorf("a secret is shown:\n%s", got.out)
	}
}

// What is printed is a configuration file that means the same.
func TestConfigPrintIsAFile(t *testing.T) {
	for _, tables := range []struct{ key, given, printed string }{
		{"table", `['"My-App"."a,b"', "public.outbox_events"]`, `'"My-App"."a,b",public.outbox_events'`},
		{"tables", `[a, {columns: {id: [x, y]}, name: "\"É # b\""}]`, `[{name: a}, {name: '"É # b"', columns: {id: [x, y]}}]`},
		{"tables", `[{partition_by: key, key: "column:x", topic: "{table}", name: a}]`, `[{name: a, topic: '{table}', key: 'column:x', partition_by: key}]`},
	} {
		t.Run(tables.key, func(t *testing.T) {
			checkPrintIsAFile(t, tables.key+": "+tables.given+"\n", tables.key+": "+tables.printed+" # ")
		})
	}
}

func checkPrintIsAFile(t *testing.T, tables, printedTables string) {
	t.Helper()
	first := tables + `dsn: host=db user='a b'
brokers: "k:9092"
topic: "#{aggregate_type}: 'x'"
silence-timeout: 1m0s
http: :9464
`
	// The topic is at fault, so that quoting is tried too.
	printed := execute(t, "config", "print", "--config", write(t, "first.yaml", first)).out
	again := execute(t, "config", "print", "--config", write(t, "second.yaml", printed)).out
	for l := range strings.Lines(printed) {
		value := l[:max(0, strings.LastIndex(l, " # "))]
		if !strings.HasPrefix(l, "#") && value != "" && line(again, value) == "" {
			t.Errorf("%q is %q when it is read again", value, line(again, strings.SplitN(value, ":", 2)[0]+":"))
		}
	}
	if !strings.Contains(printed, "\n"+printedTables) {
		t.Errorf("no %s in\n%s", printedTables, printed)
	}
}

// Faults do not hide the print, and come behind it.
func TestConfigPrintWithFaults(t *testing.T) {
	got := execute(t, "config", "print", "--slot", "Orders", "--dsn", "postgres://relay:s3%cret@db")
	const want = `outbox-cdc: --dsn must be a connection URL with special characters percent-encoded, or a libpq keyword string: failed to parse as URL
outbox-cdc: --slot must be 1 to 63 lower-case letters, digits and underscores, got "Orders"
outbox-cdc: --brokers is required: the addresses of Kafka brokers, host:port[,host:port...]
`
	if got.code != codeUsage || got.err != want || line(got.out, "slot:") != "slot: Orders # flag" || line(got.out, "dsn:") != "dsn: xxxxx # flag" {
		t.Errorf("got %+v, want the slot, a hidden dsn and\n%s", got, want)
	}
	if got := execute(t, "config", "print", "--dsn-file", filepath.Join(t.TempDir(), "none")); line(got.out, "# leads to") != "" {
		t.Errorf("what is not known leads nowhere: got %s", got.out)
	}
	wantFaults(t, []string{"config", "validate", "--brokers", "k:9092", "-o", "json"}, "unknown flag -o; see outbox-cdc config validate --help")
	if got := execute(t, "config", "print", "-o", "text", "--brokers", "k:9092"); got.err != "outbox-cdc: -o must be yaml or json, got \"text\"\n" {
		t.Errorf("got %+v", got)
	}
}

func TestConfigPrintJSON(t *testing.T) {
	t.Setenv("OUTBOX_CDC_DSN", "host=db user=relay password=s3cret")
	got := execute(t, "config", "print", "-o", "json", "--brokers", "k:9092")
	var values map[string]shownValue
	if err := json.Unmarshal([]byte(got.out), &values); err != nil || got.code != codeOK {
		t.Fatalf("got %+v, %v", got, err)
	}
	dsn := values["dsn"]
	if dsn.Value != "host=db user=relay password=xxxxx" || dsn.Source != "environment variable OUTBOX_CDC_DSN" || dsn.Leads == nil {
		t.Errorf("got %+v", dsn)
	} else if got := dsn.Leads.String(); got != "db:5432, database relay, user relay, sslmode prefer" {
		t.Errorf("it leads to %s", got)
	}
	if got, want := values["brokers"], (shownValue{Value: "k:9092", Source: "flag"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, o := range configuration() {
		if _, found := values[o.name]; !found {
			t.Errorf("no %s", o.name)
		}
	}
}

// Behaviours: C5
func TestConfigValidate(t *testing.T) {
	got := execute(t, "config", "validate", "--brokers", "127.0.0.1:1", "--dsn", "host=127.0.0.1 port=1")
	if want := (outcome{out: "configuration is valid\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	missing := filepath.Join(t.TempDir(), "missing.pem")
	noPEM := write(t, "ca.pem", "not PEM")
	for _, command := range [][]string{{"config", "validate"}, {"run"}} {
		wantFaults(t, append(command, "--brokers", "127.0.0.1:1", "--slot", "", "--tls", "--tls-ca", noPEM, "--tls-cert", noPEM, "--tls-key", missing),
			`--slot must be 1 to 63 lower-case letters, digits and underscores, got ""`,
			"--tls-key must name a file that can be read: stat "+missing+": no such file or directory",
			"--tls-ca: "+noPEM+" holds no PEM certificate")
		wantFaults(t, append(command, "--brokers", "127.0.0.1:1", "--tls", "--tls-ca", noPEM, "--tls-cert", noPEM, "--tls-key", noPEM),
			"--tls-ca: "+noPEM+" holds no PEM certificate",
			"--tls-cert and --tls-key: tls: failed to find any PEM data in certificate input")
		wantFaults(t, append(command, "--brokers", "127.0.0.1:1", "--dsn", "host=127.0.0.1 port=1 sslmode=verify-full sslrootcert="+missing),
			"--dsn asks for TLS that cannot be set up; check sslmode, sslrootcert, sslcert and sslkey in it: "+
				"unable to read CA file: open "+missing+": no such file or directory")
	}
}

// awkward are passwords in which something has a meaning of its own somewhere.
var awkward = []string{
	"per%cent 100%25", `\back\\slash\`, "at@home:/?#[]", `'quote'd "twice"`, "  blanks around  ", "`: amp&equals=plus+", "ünï,{$HOME}",
}

// keyword writes a password into a keyword string.
func keyword(password string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(password) + "'"
}

// No password is shown, however it is given.
//
// Behaviours: S29
func TestPasswordsAreNotShown(t *testing.T) {
	for _, password := range awkward {
		t.Run(password, func(t *testing.T) {
			marked := "Zq7" + password + "Zq7" // what is not in any other output
			inURL := url.URL{Scheme: "postgres", User: url.UserPassword("relay", marked), Host: "127.0.0.1:1", Path: "shop"}
			for _, dsn := range []string{
				inURL.String(),
				"postgres://127.0.0.1:1/shop?user=relay&password=" + url.QueryEscape(marked) + "&sslpassword=" + url.QueryEscape(marked),
				"postgresql://relay@127.0.0.1:1/shop?password=" + strings.ReplaceAll(url.QueryEscape(marked), "+", "%20"),
				"host=127.0.0.1 port=1 user=relay password=" + keyword(marked) + " sslpassword = " + keyword(marked),
				"password=" + strings.NewReplacer(`\`, `\\`, " ", `\ `, "'", `\'`).Replace(marked) + " host=127.0.0.1 port=1",
				// Malformed ones.
				"postgres://relay:" + marked + "@127.0.0.1:port/shop",
				"postgres://relay:" + marked + "%zz@127.0.0.1:1/shop",
				"postgres:/relay:" + marked + "@127.0.0.1:1/shop",
				"host=127.0.0.1 port=1 password='" + marked,
				"host=127.0.0.1 port=1 password " + marked,
				"host=127.0.0.1 port=1 passwrod=" + keyword(marked),
				marked,
			} {
				if shown := redactDSN(dsn); strings.Contains(shown, "Zq7") {
					t.Errorf("%s is shown as %s", dsn, shown)
				}
				cfg := replication.Config{DSN: dsn, Slot: "orders", Publication: "orders", Tables: []decoder.Table{{Schema: "public", Name: "orders"}}}
				if err := cfg.Validate(); err != nil && strings.Contains(err.Error(), "Zq7") {
					t.Errorf("%s is at fault, and shown: %v", dsn, err)
				}
			}
			for _, command := range []string{"config print -o json", "slot list", "init --print-sql"} {
				t.Setenv("OUTBOX_CDC_DSN", inURL.String())
				if got := execute(t, strings.Fields(command)...); strings.Contains(got.out+got.err, "Zq7") {
					t.Errorf("%s shows\n%s%s", command, got.out, got.err)
				}
			}
			os.Unsetenv("OUTBOX_CDC_DSN")
			for _, name := range []string{"OUTBOX_CDC_PASSWORD", "OUTBOX_CDC_SASL_PASSWORD", "PGPASSWORD"} {
				t.Setenv(name, marked)
			}
			for _, command := range []string{"config print", "run"} {
				if got := execute(t, strings.Fields(command)...); strings.Contains(got.out+got.err, "Zq7") {
					t.Errorf("%s shows\n%s%s", command, got.out, got.err)
				}
			}
		})
	}
}

// What is not a password stays in sight.
func TestRedactDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"": "",
		"postgres://relay@db:6432/shop?sslmode=require":        "postgres://relay@db:6432/shop?sslmode=require",
		"postgres://relay:a%40b@db1,db2/shop":                  "postgres://relay:xxxxx@db1,db2/shop",
		"postgres://relay:12/34@db/shop":                       "xxxxx",
		"host=db  user = relay passfile=/run/pgpass":           "host=db user=relay passfile=/run/pgpass",
		`password='it\'s' host='my db' options='-c x=\'y z\''`: `password=xxxxx host='my db' options='-c x=\'y z\''`,
		"host=": "host=",
		"what":  "xxxxx",
	} {
		if got := redactDSN(dsn); got != want {
			t.Errorf("%s: got %s, want %s", dsn, got, want)
		}
	}
}

// A password between any other settings is not shown.
func FuzzRedactDSN(f *testing.F) {
	f.Add("host=db user='a b'", "it's", "port = 1 ")
	f.Add(`options='-c a=\'b\''`, `\`, "sslpassword=x")
	f.Fuzz(func(t *testing.T, before, password, behind string) {
		const mark = "Zq7"
		if strings.Contains(before+behind, mark) {
			return
		}
		for _, dsn := range []string{
			before + " password=" + keyword(mark+password) + " " + behind,
			"postgres://relay@db/shop?" + url.Values{"application_name": {before}, "password": {mark + password}, "options": {behind}}.Encode(),
			"postgres://" + url.UserPassword(before, mark+password).String() + "@db/" + url.PathEscape(behind),
		} {
			if shown := redactDSN(dsn); strings.Contains(shown, mark) {
				t.Errorf("%q is shown as %q", dsn, shown)
			}
		}
	})
}

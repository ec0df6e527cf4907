package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Behaviours: C5
func TestFaultsOfTheConfiguration(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"brokers missing", []string{"run"},
			[]string{"--brokers is required: the addresses of Kafka brokers, host:port[,host:port...]"}},
		{"all at once", []string{"run", "--slot", "Orders", "--topic", "a b", "--status-interval", "soon", "--tls=perhaps", "--log-level", "loud", "--http", "9464"},
			[]string{
				`--log-level must be debug, info, warn or error, got "loud"`,
				`--status-interval must be a duration such as 30s, got "soon"`,
				`--tls must be true or false, got "perhaps"`,
				`--http must be [host]:port, got "9464"`,
				`--slot must be 1 to 63 lower-case letters, digits and underscores, got "Orders"`,
				`--brokers is required: the addresses of Kafka brokers, host:port[,host:port...]`,
				`--topic must hold letters, digits, dot, underscore, hyphen and {placeholders}, got "a b"`,
			}},
		{"durations", []string{"run", "--brokers", "k:9092", "--silence-timeout", "", "--start-timeout", "0s", "--shutdown-timeout", "-1s"},
			[]string{
				"--silence-timeout must be a duration such as 30s, got nothing",
				"--start-timeout must be positive, got 0s",
				"--shutdown-timeout must be positive, got -1s",
			}},
		{"a budget that is no size", []string{"run", "--brokers", "k:9092", "--max-in-flight-bytes", "32Mb/s"},
			[]string{`--max-in-flight-bytes must be a size such as 32MiB, got "32Mb/s"`}},
		{"a budget that is too small", []string{"run", "--brokers", "k:9092", "--max-in-flight-bytes", "1KiB"},
			[]string{"--max-in-flight-bytes must be at least 1MiB, got 1KiB"}},
		{"a table with too many parts", []string{"run", "--brokers", "k:9092", "--table", "a.b.c"},
			[]string{`--table must be a table as in SQL, such as public.outbox_events or "My-App"."OutBox", got "a.b.c"`}},
		{"an empty publication", []string{"publication", "show", "--publication", ""},
			[]string{"--publication must not be empty"}},
		{"a login without a mechanism", []string{"run", "--brokers", "k:9092", "--sasl-user", "relay"},
			[]string{`--sasl-user needs --sasl-mechanism, got "relay" without it`}},
		{"a certificate without TLS", []string{"run", "--brokers", "k:9092", "--tls-server-name", "kafka"},
			[]string{`--tls-server-name needs --tls, got "kafka" without it`}},
		{"a log format", []string{"run", "--brokers", "k:9092", "--log-format", "xml"},
			[]string{`--log-format must be auto, text or json, got "xml"`}},
		{"an output format", []string{"slot", "list", "-o", "yaml"},
			[]string{`-o must be text or json, got "yaml"`}},
		{"no position to advance to", []string{"slot", "advance"},
			[]string{`--to must be an LSN such as 16/B374D848, or now, got ""`}},
		{"a timeout", []string{"slot", "create", "--timeout", "never"},
			[]string{`--timeout must be a duration such as 30s, got "never"`}},
		{"a connection string with a password, malformed", []string{"slot", "list", "--dsn", "postgres://relay:s%3cret%zz@db/shop"},
			[]string{"--dsn must be a connection URL with special characters percent-encoded, or a libpq keyword string: failed to parse as URL"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := execute(t, tc.args...)
			want := outcome{code: codeUsage, err: "outbox-cdc: " + strings.Join(tc.want, "\noutbox-cdc: ") + "\n"}
			if got != want {
				t.Errorf("got code %d, output %q and\n%s\nwant\n%s", got.code, got.out, got.err, want.err)
			}
		})
	}
}

// Behaviours: C5
func TestContradictions(t *testing.T) {
	file := write(t, "client.pem", "not PEM")
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"a user without a mechanism", []string{"--sasl-user", "relay"}, []string{`--sasl-user needs --sasl-mechanism, got "relay" without it`}},
		{"a password without a mechanism", []string{"--sasl-password", "s3cret"}, []string{"--sasl-password needs --sasl-mechanism, got a password without it"}},
		{"a mechanism alone", []string{"--sasl-mechanism", "PLAIN"}, []string{
			`--sasl-user must be given with --sasl-mechanism PLAIN, got ""`, "--sasl-password must be given with --sasl-mechanism PLAIN, got an empty one"}},
		{"a certificate without its key", []string{"--tls", "--tls-cert", file}, []string{fmt.Sprintf("--tls-cert and --tls-key must be given together, got %q and \"\"", file)}},
		{"a certificate without TLS", []string{"--tls-ca", file}, []string{fmt.Sprintf("--tls-ca needs --tls, got %q without it", file)}},
		{"no look at the certificate, without TLS", []string{"--tls-insecure-skip-verify"}, []string{"--tls-insecure-skip-verify needs --tls, got true without it"}},
		{"no look at the certificate, and one to trust", []string{"--tls", "--tls-insecure-skip-verify", "--tls-ca", file}, []string{
			fmt.Sprintf("--tls-insecure-skip-verify accepts any certificate, so --tls-ca must not be given with it, got %q", file),
			"--tls-ca: " + file + " holds no PEM certificate"}},
		{"numbers of topics that are not created", []string{"--create-topics-partitions", "6", "--create-topics-replication", "3"}, []string{
			"--create-topics-partitions needs --create-topics, got 6 without it", "--create-topics-replication needs --create-topics, got 3 without it"}},
		{"reports more seldom than silence is borne", []string{"--status-interval", "1m", "--silence-timeout", "1m"}, []string{
			"--silence-timeout must be longer than --status-interval, got 1m and 1m"}},
		{"dead letters and none", []string{"--on-unknown-topic", "dead-letter", "--on-poison", "halt"}, []string{
			"--on-unknown-topic dead-letter needs --on-poison dead-letter, got halt"}},
		{"a table twice", []string{"--table", `outbox, "outbox"`}, []string{`--table must name each table once, got "public"."outbox" twice`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantFaults(t, append([]string{"config", "validate", "--brokers", "k:9092"}, tc.args...), tc.want...)
		})
	}
	wantFaults(t, []string{"init", "--print-sql", "--timeout", "1s"}, "--timeout has no effect with --print-sql; leave one of them out")
}

// Behaviours: C5
func TestRanges(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"a number that is none", []string{"--create-topics", "--create-topics-partitions", "many"}, `--create-topics-partitions must be a number from 0 to 2147483647, got "many"`},
		{"a number below 0", []string{"--create-topics", "--create-topics-replication=-1"}, `--create-topics-replication must be a number from 0 to 32767, got "-1"`},
		{"a number that is too large", []string{"--create-topics", "--create-topics-replication", "32768"}, `--create-topics-replication must be a number from 0 to 32767, got "32768"`},
		{"a size below 0", []string{"--max-in-flight-bytes=-32MiB"}, `--max-in-flight-bytes must be a size such as 32MiB, got "-32MiB"`},
		{"a duration without a unit", []string{"--start-timeout", "30"}, `--start-timeout must be a duration such as 30s, got "30"`},
		{"brokers without ports", []string{"--brokers", "kafka-1,kafka-2:9092,PLAINTEXT://kafka-3:9092"}, "--brokers must be host:port[,host:port...], got \"kafka-1\"\n" +
			`outbox-cdc: --brokers must be host:port[,host:port...], got "PLAINTEXT://kafka-3:9092"`},
		{"a port that is none", []string{"--brokers", "kafka-1:99999"}, `--brokers must be host:port[,host:port...], got "kafka-1:99999"`},
		{"a port for HTTP that is none", []string{"--http", ":99999"}, `--http must be [host]:port, got ":99999"`},
		{"a host for HTTP alone", []string{"--http", "localhost"}, `--http must be [host]:port, got "localhost"`},
		{"an old version", []string{"--kafka-version", "2.7.0"}, `--kafka-version must be at least 2.8.0 (an older broker is recognised by itself), got "2.7.0"`},
		{"a version that is none", []string{"--kafka-version", "latest"}, `--kafka-version must be a version like 2.8.0, got "latest"`},
		{"a compression", []string{"--compression", "brotli"}, `--compression must be none, gzip, snappy, lz4 or zstd, got "brotli"`},
		{"a key", []string{"--key", "id"}, `--key must be one of event_id, aggregate_id, column:NAME, got "id"`},
		{"a partition", []string{"--partition-by", "random"}, `--partition-by must be one of aggregate_id, key, none, column:NAME, number:NAME, got "random"`},
		{"a fence", []string{"--fence", "maybe"}, `--fence must be one of auto, require, off, got "maybe"`},
		{"a mechanism", []string{"--sasl-mechanism", "GSSAPI"}, `--sasl-mechanism must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, got "GSSAPI"`},
		{"an open quote in a list of tables", []string{"--table", `a,"b`}, `--table must be a table as in SQL, such as public.outbox_events or "My-App"."OutBox", got "\"b"`},
		{"an empty table in a list", []string{"--table", "a,"}, `--table must be a table as in SQL, such as public.outbox_events or "My-App"."OutBox", got ""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantFaults(t, append([]string{"config", "validate", "--brokers", "k:9092"}, tc.args...), tc.want)
		})
	}
}

// Every choice that the help and the completion offer can be made.
func TestChoices(t *testing.T) {
	for _, o := range configuration() {
		for _, value := range o.choices {
			got := execute(t, "config", "print", "--brokers", "k:9092", "--"+o.name, value)
			if strings.Contains(got.err, "--"+o.name+" must be one of") || strings.Contains(got.err, "--"+o.name+" must be "+o.choices[0]) {
				t.Errorf("--%s %s: got %s", o.name, value, got.err)
			}
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("OUTBOX_CDC_SLOT", "Orders")
	t.Setenv("OUTBOX_CDC_NO_WAIT", "perhaps")
	t.Setenv("OUTBOX_CDC_MAX_IN_FLIGHT_BYTES", "lots")
	got := execute(t, "run", "--brokers", "k:9092", "--max-in-flight-bytes", "64MiB")
	want := outcome{code: codeUsage, err: `outbox-cdc: --no-wait must be true or false, got "perhaps" (environment variable OUTBOX_CDC_NO_WAIT)
outbox-cdc: --slot must be 1 to 63 lower-case letters, digits and underscores, got "Orders" (environment variable OUTBOX_CDC_SLOT)
`}
	if got != want {
		t.Errorf("the argument goes first, the environment second: got %+v, want %+v", got, want)
	}
}

func TestPrintSQL(t *testing.T) {
	got := execute(t, "init", "--print-sql", "--table", `"My-App"."OutBox"`, "--publication", "MyPub", "--slot", "my_slot", "--role", "relay", "--dsn", "host=db dbname=shop user=owner")
	if got.code != codeOK || got.err != "" {
		t.Fatalf("got %+v", got)
	}
	order := []string{
		`CREATE TABLE IF NOT EXISTS "My-App"."OutBox"`,
		`CREATE TABLE IF NOT EXISTS "My-App"."outbox_cdc_checkpoint"`,
		`CREATE TABLE IF NOT EXISTS "My-App"."outbox_dead_letters"`,
		`CREATE PUBLICATION "MyPub" FOR TABLE "My-App"."OutBox"`,
		`SELECT pg_create_logical_replication_slot('my_slot', 'pgoutput')`,
		`GRANT CONNECT ON DATABASE "shop" TO "relay"`,
	}
	rest := got.out
	for _, part := range order {
		_, behind, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is not in its place in:\n%s", part, got.out)
		}
		rest = behind
	}
}

func TestItems(t *testing.T) {
	for text, want := range map[string][]string{
		"":               nil,
		"a":              {"a"},
		"a, b,":          {"a", "b", ""},
		`a\,b,c\\,\d`:    {"a,b", `c\`, `\d`},
		`x-list=1\, 2,y`: {"x-list=1, 2", "y"},
	} {
		if got := splitItems(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

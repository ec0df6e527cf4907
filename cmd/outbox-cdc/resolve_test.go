package main

import (
	"slices"
	"strings"
	"testing"
)

// The flag goes before the variable, that before the file, and that before the
// default.
func TestPrecedence(t *testing.T) {
	path := write(t, "relay.yaml", "slot: from_file\n")
	created := func(args ...string) string {
		got := execute(t, append([]string{"init", "--print-sql"}, args...)...)
		_, rest, _ := strings.Cut(got.out, "pg_create_logical_replication_slot('")
		name, _, _ := strings.Cut(rest, "'")
		return name
	}
	if got := created(); got != defaultSlot {
		t.Errorf("nothing given: got %q", got)
	}
	if got := created("--config", path); got != "from_file" {
		t.Errorf("in the file: got %q", got)
	}
	t.Setenv("OUTBOX_CDC_CONFIG", path)
	if got := created(); got != "from_file" {
		t.Errorf("in the file that a variable names: got %q", got)
	}
	t.Setenv("OUTBOX_CDC_SLOT", "")
	if got := created(); got != "from_file" {
		t.Errorf("an empty variable is none: got %q", got)
	}
	t.Setenv("OUTBOX_CDC_SLOT", "from_environment")
	if got := created(); got != "from_environment" {
		t.Errorf("in the environment: got %q", got)
	}
	if got := created("--slot", "from_flag"); got != "from_flag" {
		t.Errorf("as an argument: got %q", got)
	}
	wantFaults(t, []string{"slot", "show", "--slot", ""}, `--slot must be 1 to 63 lower-case letters, digits and underscores, got ""`)
}

// A fault names where each value that it speaks of stands.
func TestFaultsNameTheSource(t *testing.T) {
	path := write(t, "relay.yaml", "brokers: k:9092\nsilence-timeout: 5s\ntable: a.b.c\n")
	t.Setenv("OUTBOX_CDC_STATUS_INTERVAL", "10s")
	t.Setenv("OUTBOX_CDC_TLS", "perhaps")
	wantFaults(t, []string{"run", "--config", path, "--slot", "Orders"},
		`--table must be a table as in SQL, such as public.outbox_events or "My-App"."OutBox", got "a.b.c" (`+path+":3)",
		`--tls must be true or false, got "perhaps" (environment variable OUTBOX_CDC_TLS)`,
		`--slot must be 1 to 63 lower-case letters, digits and underscores, got "Orders"`,
		"--silence-timeout must be longer than --status-interval, got 5s and 10s (--silence-timeout: "+path+":2; --status-interval: environment variable OUTBOX_CDC_STATUS_INTERVAL)")
}

// A switch of a command is not taken for off because it was misspelt.
func TestSwitchOfACommand(t *testing.T) {
	wantFaults(t, []string{"slot", "drop", "--yes=perhaps"}, `--yes must be true or false, got "perhaps"`)
}

func TestMisspelt(t *testing.T) {
	got := misspelt([]string{
		"OUTBOX_CDC_BROKRES=k:9092", "OUTBOX_CDC_SLOT=orders", "OUTBOX_CDC_PASSWORD_FILES=/x", "OUTBOX_CDC_NOTHING_LIKE_IT=1",
		"OUTBOX_CDC_TEST_PG=15", "OUTBOX_CDC_TEST_SLOT=1", "PATH=/bin",
		"OUTBOX_CDC_SERVICE_HOST=10.0.0.1", "OUTBOX_CDC_SERVICE_PORT=9464", "OUTBOX_CDC_SERVICE_PORT_HTTP=9464", "OUTBOX_CDC_PORT=tcp://10.0.0.1:9464",
		"OUTBOX_CDC_PORT_9464_TCP=tcp://10.0.0.1:9464", "OUTBOX_CDC_PORT_9464_TCP_PROTO=tcp", "OUTBOX_CDC_PORT_9464_TCP_ADDR=10.0.0.1",
	})
	want := []string{
		"the environment variable OUTBOX_CDC_BROKRES is not known and has no effect (did you mean OUTBOX_CDC_BROKERS?)",
		"the environment variable OUTBOX_CDC_PASSWORD_FILES is not known and has no effect (did you mean OUTBOX_CDC_PASSWORD_FILE?)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A misspelt variable is said and stops nothing.
func TestMisspeltIsNoFault(t *testing.T) {
	t.Setenv("OUTBOX_CDC_SLTO", "orders")
	got := execute(t, "slot", "list", "--dsn", "host=127.0.0.1 port=1")
	const want = "outbox-cdc: the environment variable OUTBOX_CDC_SLTO is not known and has no effect (did you mean OUTBOX_CDC_SLOT?)\n"
	if got.code != codePostgres || !strings.HasPrefix(got.err, want) {
		t.Errorf("got %+v, want exit code %d and first %q", got, codePostgres, want)
	}
}

// A list may be given in several arguments, and its name stands for one thing
// in all places.
func TestDefinitions(t *testing.T) {
	var names []string
	for _, o := range definitions() {
		if slices.Contains(names, o.name) {
			t.Errorf("--%s is defined twice", o.name)
		}
		names = append(names, o.name)
		if o.use == "" || o.group == "" {
			t.Errorf("--%s: got use %q and group %q", o.name, o.use, o.group)
		}
		if o.hasFile() && findOption(definitions(), o.name+fileSuffix) == nil {
			t.Errorf("--%s has no companion", o.name)
		}
		if o.kind == kindChoice && o.standard != "" && !slices.Contains(o.choices, o.standard) {
			t.Errorf("--%s: the default is %q", o.name, o.standard)
		}
	}
}

func TestRepeatedList(t *testing.T) {
	got := execute(t, "publication", "create", "--table", "a", "--table", "b", "--publication", "")
	if want := "outbox-cdc: --publication must not be empty\n"; got.err != want {
		t.Errorf("got %q, want %q", got.err, want)
	}
	wantFaults(t, []string{"init", "--print-sql", "--table", "a", "--table", "a"}, `--table must name each table once, got "public"."a" twice`)
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a file of its own and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantFaults runs a command and compares the whole of what it says.
func wantFaults(t *testing.T, args []string, want ...string) {
	t.Helper()
	got := execute(t, args...)
	if w := (outcome{code: codeUsage, err: "outbox-cdc: " + strings.Join(want, "\noutbox-cdc: ") + "\n"}); got != w {
		t.Errorf("%q:\ngot code %d, output %q and\n%s\nwant\n%s", args, got.code, got.out, got.err, w.err)
	}
}

// Behaviours: C5
func TestFaultsOfTheFile(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		want          []string // FILE is the path
	}{
		{"an unknown key", "slot: orders\nbrokrs: k:9092\n", []string{`FILE:2: unknown key "brokrs" (did you mean brokers?)`}},
		{"a key like none", "teleport: true\n", []string{`FILE:1: unknown key "teleport"`}},
		{"a key with underscores", "max_in_flight_bytes: 1GiB\n", []string{`FILE:1: unknown key "max_in_flight_bytes" (did you mean max-in-flight-bytes?)`}},
		{"a flag of one command", "yes: true\n", []string{`FILE:1: key "yes" has no place in a file, it is for the command line`}},
		{"another file", "config: other.yaml\n", []string{`FILE:1: key "config" has no place in a file, it is for the command line`}},
		{"a key twice", "slot: orders\ntopic: t\nslot: invoices\n", []string{`FILE:3: key "slot" stands in line 1 already`}},
		{"sections", "kafka:\n  brokers: k:9092\nslot:\n  name: orders\n",
			[]string{`FILE:1: unknown key "kafka"`, `FILE:4: key "slot" must be a single value, got a mapping`}},
		{"a list for a single value", "slot: [a, b]\n", []string{`FILE:1: key "slot" must be a single value, got a list`}},
		{"a mapping for a list", "brokers:\n  host: k\n", []string{`FILE:2: key "brokers" must be a value or a list of values, got a mapping`}},
		{"a list in a list", "brokers:\n  - [a]\n", []string{`FILE:2: key "brokers" must be a value or a list of values, got a list in it`}},
		{"nothing in a list", "table:\n  -\n", []string{`FILE:2: key "table" must be a value or a list of values, got nothing in it`}},
		{"a key that is a list", "[a]: b\n", []string{`FILE:1: unknown key ""`}},
		{"a list", "- slot\n", []string{"FILE:1: a configuration file holds lines such as slot: orders, got a list"}},
		{"a word", "slot", []string{"FILE:1: a configuration file holds lines such as slot: orders, got a single value"}},
		{"two documents", "slot: a\n---\nslot: b\n", []string{"FILE:2: a configuration file holds one document, and here begins another"}},
		{"not YAML", "slot: a\nbrokers: b: c\n", []string{"FILE:2: this is not YAML: mapping values are not allowed in this context"}},
		{"not YAML in the first line", "slot: a: b", []string{"FILE:1: this is not YAML: mapping values are not allowed in this context"}},
		{"an open bracket", "slot: a\nbrokers: [b\ntopic: t\n", []string{"FILE:2: this is not YAML: did not find expected ',' or ']'"}},
		{"an open quote", "slot: a\ntopic: 't\nkey: event_id\n", []string{"FILE:2: this is not YAML: found unexpected end of stream"}},
		{"a quote over two lines, and a fault behind", "topic: 'a\n  b'\n\tslot: x\n", []string{"FILE:3: this is not YAML: found character that cannot start any token"}},
		{"a wrong indent", "slot: a\n  topic: t\n", []string{"FILE:2: this is not YAML: mapping values are not allowed in this context"}},
		{"an unknown anchor", "slot: a\ntopic: *t\n", []string{"FILE:2: this is not YAML: unknown anchor 't' referenced"}},
		{"no text at all", "slot: a\ntopic: \x00\x01\n", []string{"FILE:2: this is not YAML: control characters are not allowed"}},
		{"a wrong value", "# ours\n\nslot: Orders\n", []string{`--slot must be 1 to 63 lower-case letters, digits and underscores, got "Orders" (FILE:3)`}},
		{"everything at once", "slto: a\nslot: Orders\nslot: b\n", []string{
			`FILE:1: unknown key "slto" (did you mean slot?)`,
			`FILE:3: key "slot" stands in line 2 already`,
			`--slot must be 1 to 63 lower-case letters, digits and underscores, got "Orders" (FILE:2)`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, "relay.yaml", tc.content)
			var want []string
			for _, line := range tc.want {
				want = append(want, strings.ReplaceAll(line, "FILE", path))
			}
			wantFaults(t, []string{"slot", "show", "--config", path}, want...)
		})
	}
}

// Behaviours: C5
func TestUnreadableFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	wantFaults(t, []string{"slot", "show", "--config", missing},
		"--config must name a file that can be read: open "+missing+": no such file or directory")
	directory := t.TempDir()
	wantFaults(t, []string{"slot", "show", "--config", directory},
		"--config must name a file that can be read: read "+directory+": is a directory")
	large := write(t, "access.log", strings.Repeat("x", 1<<20))
	wantFaults(t, []string{"slot", "show", "--config", large},
		"--config must name a configuration file, got "+large+" of more than 64 KiB")
	t.Setenv("OUTBOX_CDC_CONFIG", missing)
	wantFaults(t, []string{"slot", "show"},
		"--config must name a file that can be read: open "+missing+": no such file or directory (environment variable OUTBOX_CDC_CONFIG)")
}

// The values of a file are those that are written in it, whatever YAML would
// make of them.
func TestValuesOfTheFile(t *testing.T) {
	for _, tc := range []struct {
		name, content, option, want string
	}{
		{"text", "slot: orders", "slot", "orders"},
		{"quoted", `slot: "orders"`, "slot", "orders"},
		{"a word that YAML 1.1 takes for false", "fence: off", "fence", "off"},
		{"yes", "tls: yes", "tls", "true"},
		{"On", "tls: On", "tls", "true"},
		{"no", "position-headers: no", "position-headers", "false"},
		{"a number", "slot: 0815", "slot", "0815"},
		{"a version that is a number", "kafka-version: 2.10", "kafka-version", "2.10"},
		{"nothing", "slot:\nhttp: ~", "slot", defaultSlot},
		{"an empty text", `slot: ""`, "slot", ""},
		{"a list", "brokers: [a:1, 'b:2']", "brokers", "a:1,b:2"},
		{"a list in lines", "brokers:\n  - a:1\n  - b:2", "brokers", "a:1,b:2"},
		{"an empty list", "brokers: []", "brokers", ""},
		{"commas", "brokers: a:1,b:2", "brokers", "a:1,b:2"},
		{"an alias", "slot: &name orders\npublication: *name", "publication", "orders"},
		{"a byte order mark", "\ufeffslot: orders", "slot", "orders"},
		{"lines of Windows", "slot: orders\r\ntopic: t\r\n", "slot", "orders"},
		{"an empty file", "", "slot", defaultSlot},
		{"comments alone", "# nothing\n", "slot", defaultSlot},
		{"an empty document", "---\n", "slot", defaultSlot},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &resolution{options: definitions()}
			for _, o := range r.options {
				o.value = o.standard
			}
			r.readFile(write(t, "relay.yaml", tc.content))
			r.readSwitches()
			if got := findOption(r.options, tc.option).value; got != tc.want || r.faults != nil {
				t.Errorf("got %q, %v, want %q", got, r.faults, tc.want)
			}
		})
	}
}

// Whatever a file holds, each fault is a line that names the file, and nothing
// panics.
func FuzzConfigurationFile(f *testing.F) {
	f.Add("slot: orders\nbrokers: [a:1, b:2]\n")
	f.Add("a: &a [*a]\n? b\n: c\n--- !!set {x}\n...\n")
	f.Add("{slot: orders, ? [table] : \"\\x41\"}")
	f.Fuzz(func(t *testing.T, content string) {
		r := file{path: "relay.yaml", entries: make(map[string]entry)}
		r.parse([]byte(content))
		for _, fault := range r.faults {
			if text := fault.Error(); !strings.HasPrefix(text, "relay.yaml:") || strings.HasPrefix(text, "relay.yaml:0:") || strings.Contains(text, "\n") {
				t.Errorf("%q gives %q", content, text)
			}
		}
	})
}

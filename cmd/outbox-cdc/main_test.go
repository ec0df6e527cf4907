package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// outcome is what a command leaves behind.
type outcome struct {
	code     int
	out, err string
}

// execute runs the command line in this process, away from a terminal.
func execute(t *testing.T, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{out: &out, err: &errs, stop: stopping{soft: t.Context(), hard: context.Background()}}
	code := p.execute(append([]string{"outbox-cdc"}, args...))
	return outcome{code, out.String(), errs.String()}
}

func TestUnknownWords(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no command", nil, "name a command: init, run, slot, publication, schema, config, completion, version; see outbox-cdc --help"},
		{"a command like a known one", []string{"rnu"}, `unknown command "rnu" (did you mean run?); see outbox-cdc --help`},
		{"a command like none", []string{"teleport"}, `unknown command "teleport"; see outbox-cdc --help`},
		{"no subcommand", []string{"slot"}, "name a command: create, drop, list, show, advance; see outbox-cdc slot --help"},
		{"a subcommand like a known one", []string{"slot", "crate"}, `unknown command "crate" (did you mean create?); see outbox-cdc slot --help`},
		{"a flag like a known one", []string{"run", "--brokrs", "x"}, "unknown flag --brokrs (did you mean --brokers?); see outbox-cdc run --help"},
		{"a flag with a value, like a known one", []string{"run", "--dns=x"}, "unknown flag --dns (did you mean --dsn?); see outbox-cdc run --help"},
		{"a flag of another command", []string{"slot", "list", "--brokers", "x"}, "unknown flag --brokers; see outbox-cdc slot list --help"},
		{"a flag before the command", []string{"--dsn", "x", "run"}, "unknown flag --dsn; see outbox-cdc --help"},
		{"an argument", []string{"slot", "drop", "orders"}, `unexpected argument "orders"; see outbox-cdc slot drop --help`},
		{"a flag without its value", []string{"run", "--dsn"}, "--dsn needs a value; see outbox-cdc run --help"},
		{"help for nothing", []string{"help", "teleport"}, `unknown command "teleport"; see outbox-cdc --help`},
		{"help for a subcommand like a known one", []string{"help", "slot", "crate"}, `unknown command "crate" (did you mean create?); see outbox-cdc slot --help`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := execute(t, tc.args...)
			if want := (outcome{code: codeUsage, err: "outbox-cdc: " + tc.want + "\n"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	got := execute(t, "version")
	if got.code != codeOK || !strings.HasPrefix(got.out, "outbox-cdc ") || got.err != "" {
		t.Errorf("got %+v", got)
	}
	got = execute(t, "version", "-o", "json")
	if got.code != codeOK || !strings.Contains(got.out, `"version":`) {
		t.Errorf("got %+v", got)
	}
	got = execute(t, "version", "-o", "yaml")
	if want := (outcome{code: codeUsage, err: "outbox-cdc: -o must be text or json, got \"yaml\"\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// leaves calls visit with every command that does something, and its path.
func leaves(commands []*cli.Command, parent string, visit func(path string, c *cli.Command)) {
	for _, c := range commands {
		path := strings.TrimSpace(parent + " " + c.Name)
		if c.Name == "help" {
			continue
		}
		if len(c.Subcommands) == 0 {
			visit(path, c)
		}
		leaves(c.Subcommands, path, visit)
	}
}

func TestHelp(t *testing.T) {
	for _, path := range []string{"", "slot", "publication", "schema"} {
		checkHelp(t, path)
	}
	p := &program{}
	leaves(p.app().Commands, "", func(path string, c *cli.Command) {
		help := checkHelp(t, path)
		if !strings.HasPrefix(c.UsageText, "outbox-cdc "+path) {
			t.Errorf("%s: the example is %q", path, c.UsageText)
		}
		for _, f := range c.Flags {
			if name := dashed(f.Names()[0]); f.Names()[0] != "help" && !strings.Contains(help, "\n  "+name) {
				t.Errorf("%s: the help does not name %s", path, name)
			}
		}
		for word := range strings.FieldsSeq(c.UsageText) {
			if strings.HasPrefix(word, "-") && !strings.Contains(help, "\n  "+word) {
				t.Errorf("%s: the example uses %s, which the command does not have", path, word)
			}
		}
	})
}

// checkHelp returns the help of a command.
func checkHelp(t *testing.T, path string) string {
	t.Helper()
	got := execute(t, append(strings.Fields(path), "--help")...)
	if got.code != codeOK || got.err != "" {
		t.Errorf("%s --help: %+v", path, got)
	}
	for line := range strings.Lines(got.out) {
		if line = strings.TrimSuffix(line, "\n"); len(line) > helpWidth {
			t.Errorf("%s --help: %d columns in %q", path, len(line), line)
		}
	}
	if !strings.HasPrefix(got.out, strings.TrimSpace("outbox-cdc "+path)+": ") {
		t.Errorf("%s --help begins with %.60q", path, got.out)
	}
	return got.out
}

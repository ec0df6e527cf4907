package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// everyCommand calls visit with each command of the program and its path.
func everyCommand(visit func(path string, c *cli.Command)) {
	var walk func(commands []*cli.Command, parent string)
	walk = func(commands []*cli.Command, parent string) {
		for _, c := range commands {
			path := strings.TrimSpace(parent + " " + c.Name)
			visit(path, c)
			walk(c.Subcommands, path)
		}
	}
	walk(new(program).app().Commands, "")
}

func TestHelpOfEveryCommandHasWhatHelps(t *testing.T) {
	everyCommand(func(path string, c *cli.Command) {
		if c.Usage == "" || c.Description == "" || !strings.HasSuffix(c.Description, ".") {
			t.Errorf("%s: got usage %q and description %q", path, c.Usage, c.Description)
		}
		help := execute(t, append([]string{"help"}, strings.Fields(path)...)...)
		if c.Name == "help" {
			return // of the program
		}
		if want := execute(t, append(strings.Fields(path), "--help")...); help != want || help.code != codeOK || help.err != "" {
			t.Errorf("help %s: got %+v, want %+v", path, help, want)
		}
		if !strings.Contains(help.out, "\nExample:\n  outbox-cdc "+path+" ") {
			t.Errorf("help %s has no example:\n%s", path, help.out)
		}
	})
}

func TestHelpSaysWhatValuesAFlagHas(t *testing.T) {
	help := execute(t, "run", "--help").out
	for _, want := range []string{
		"  --dsn VALUE  $OUTBOX_CDC_DSN\n",
		"  --dsn-file FILE  $OUTBOX_CDC_DSN_FILE\n",
		"  --table VALUE[,VALUE...] (default public.outbox_events)  $OUTBOX_CDC_TABLE\n",
		"  --no-wait  $OUTBOX_CDC_NO_WAIT\n",
		"  --silence-timeout DURATION (default 30s)  $OUTBOX_CDC_SILENCE_TIMEOUT\n",
		"  --compression none|gzip|snappy|lz4|zstd (default none)  $OUTBOX_CDC_COMPRESSION\n",
		"  --sasl-mechanism PLAIN|SCRAM-SHA-256|SCRAM-SHA-512  $OUTBOX_CDC_SASL_MECHANISM\n",
		"  --create-topics-partitions NUMBER (default 0)  $OUTBOX_CDC_CREATE_TOPICS_PARTITIONS\n",
		"  --max-in-flight-bytes SIZE (default 32MiB)  $OUTBOX_CDC_MAX_IN_FLIGHT_BYTES\n",
		"  --position-headers=false  $OUTBOX_CDC_POSITION_HEADERS\n",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help of run lacks %q", want)
		}
	}
	if help := execute(t, "slot", "show", "--help").out; !strings.Contains(help, "  -o text|json (default text)\n") {
		t.Errorf("got no choices of -o in\n%s", help)
	}
}

// The order of the definitions is the order of importance.
func TestHelpListsFlagsByImportance(t *testing.T) {
	var want []string
	for _, o := range definitions() {
		want = append(want, dashed(o.name))
	}
	everyCommand(func(path string, c *cli.Command) {
		var groups [][]string
		for line := range strings.Lines(execute(t, append(strings.Fields(path), "--help")...).out) {
			flag, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			flag = strings.TrimSuffix(flag, "=false")
			switch {
			case strings.HasSuffix(line, ":\n"):
				groups = append(groups, nil)
			case strings.HasPrefix(line, "  -") && len(groups) > 0:
				groups[len(groups)-1] = append(groups[len(groups)-1], flag)
			}
		}
		for _, flags := range groups {
			if !slices.IsSortedFunc(flags, func(a, b string) int { return slices.Index(want, a) - slices.Index(want, b) }) {
				t.Errorf("%s: flags are listed as %q", path, flags)
			}
		}
	})
}

func TestHelpOfTheProgramShowsTheWay(t *testing.T) {
	got := execute(t, "--help")
	for _, want := range []string{
		"outbox-cdc init --dsn", "outbox-cdc run --dsn", "OUTBOX_CDC_MAX_IN_FLIGHT_BYTES", "--config", documentation, "COMMAND --help",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("the help of the program lacks %q", want)
		}
	}
	if short := execute(t, "-h"); short != got || got != execute(t, "help") || got.code != codeOK || got.err != "" {
		t.Errorf("-h, --help and help differ: got %+v and %+v", short, got)
	}
	if version := execute(t, "--version"); version.code != codeOK || !strings.HasPrefix(version.out, "outbox-cdc ") {
		t.Errorf("--version: got %+v", version)
	}
}

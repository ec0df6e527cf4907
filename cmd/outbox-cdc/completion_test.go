//go:build linux || darwin

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// completionCase is what a shell offers behind a line.
type completionCase struct {
	line string
	want []string
}

// completionCases are the same for all shells: some that are looked at here, and
// the flags of each command.
func completionCases() []completionCase {
	cases := []completionCase{
		{"outbox-cdc ", []string{"init", "run", "slot", "publication", "schema", "config", "completion", "version", "help"}},
		{"outbox-cdc pu", []string{"publication"}},
		{"outbox-cdc --", []string{"--help", "--version"}},
		{"outbox-cdc slot ", []string{"create", "drop", "list", "show", "advance"}},
		{"outbox-cdc completion ", []string{"bash", "fish", "zsh"}},
		{"outbox-cdc help ", []string{"init", "run", "slot", "publication", "schema", "config", "completion", "version"}},
		{"outbox-cdc help slot cr", []string{"create"}},
		{"outbox-cdc slot drop --slot create --ye", []string{"--yes"}},
		{"outbox-cdc run --dsn ", nil},
		{"outbox-cdc run --compression ", []string{"none", "gzip", "snappy", "lz4", "zstd"}},
		{"outbox-cdc run --compression=", []string{"none", "gzip", "snappy", "lz4", "zstd"}},
		{"outbox-cdc run --compression=z", []string{"zstd"}},
		{"outbox-cdc run --partition-by k", []string{"key"}},
		{"outbox-cdc version -o ", []string{"text", "json"}},
		{"outbox-cdc run --tls-ca ", []string{"ca.pem", "client.pem"}},
		{"outbox-cdc run --tls-ca=ca", []string{"ca.pem"}},
		{"outbox-cdc run --config cl", []string{"client.pem"}},
		{"outbox-cdc slot show --password-file cl", []string{"client.pem"}},
		{"outbox-cdc run --topic=", nil},
		{"outbox-cdc run --tls=", nil},
		{"outbox-cdc run --position-headers=", []string{"false"}},
	}
	leaves(new(program).app().Commands, "", func(path string, c *cli.Command) {
		want := []string{"--help"}
		for _, f := range c.Flags {
			if name := f.Names()[0]; name != "help" {
				want = append(want, dashed(name))
			}
		}
		cases = append(cases, completionCase{"outbox-cdc " + path + " -", want})
	})
	return cases
}

// A completionDriver has a shell say what it offers behind each line.
type completionDriver struct {
	name    string
	shell   string
	options []string // of the shell, in front of a script to run
	// script reads the script under test from its first argument and writes,
	// for each of the others, a line "LINE ...", and a line "OFFER ..." for
	// each candidate.
	script string
	words  func(line string) string // the line as script wants it
}

var completionDrivers = []completionDriver{
	{name: "bash", shell: "bash", options: []string{"--noprofile", "--norc"}, words: bashWords, script: `
source "$1"
shift
for line; do
    echo "LINE $line"
    IFS='|' read -r -a COMP_WORDS <<<"$line|."
    unset 'COMP_WORDS[${#COMP_WORDS[@]}-1]'
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _outbox_cdc
    for candidate in "${COMPREPLY[@]}"; do echo "OFFER $candidate"; done
done
`},
	{name: "fish", shell: "fish", options: []string{"--no-config"}, script: `
source $argv[1]
for line in $argv[2..]
    echo "LINE $line"
    for candidate in (complete -C $line)
        echo "OFFER "(string split -f1 \t -- $candidate)
    end
end
`},
	{name: "zsh, by source", shell: "zsh", options: []string{"-f"}, script: zshDriver("compinit -u -D; source $1")},
	{name: "zsh, from fpath", shell: "zsh", options: []string{"-f"}, script: zshDriver("fpath=(${1:h} $fpath); compinit -u -D")},
}

// zshDriver returns the script for zsh, which loads the completion with load.
// zsh completes only where somebody types, so it is given a terminal. What it
// offers passes through compadd.
func zshDriver(load string) string {
	return strings.Replace(`
zmodload zsh/zpty
until_line() {
    local line
    while zpty -r shell line; do
        line=${line%%$'\r'*}
        [[ $line == OFFER\ * ]] && print -r -- $line
        [[ $line == $1 ]] && return
    done
}
zpty shell zsh -f -i
zpty -w shell "
    PS1= PROMPT_EOL_MARK=
    autoload -Uz compinit
    LOAD
    compadd() {
        local -a hits
        if (( ! \$@[(I)-[OAD]] )); then
            builtin compadd -O hits \"\$@\"
            print -rl -- OFFER\\ \$^hits
        fi
        builtin compadd \"\$@\"
    }
    candidates() { print; _main_complete; print END }
    zle -C candidates list-choices candidates
    bindkey '^I' candidates
    bindkey '^U' kill-whole-line
    print READ''Y"
until_line READY
shift
for line; do
    print -r -- "LINE $line"
    zpty -w -n shell "$line"$'\t'
    until_line END
    zpty -w -n shell $'\025'
done
zpty -d shell
`, "LOAD", load, 1)
}

// bashWords breaks a line as bash does, at a = too, and joins the words with
// what is in none of them.
func bashWords(line string) string {
	line = strings.ReplaceAll(strings.ReplaceAll(line, " ", "|"), "=", "|=|")
	if words, found := strings.CutSuffix(line, "=|"); found {
		return words + "="
	}
	return line
}

func TestCompletionForNoShell(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"completion"}, "name a shell: bash, zsh or fish; see outbox-cdc completion --help"},
		{[]string{"completion", "tcsh"}, `unknown shell "tcsh", name bash, zsh or fish; see outbox-cdc completion --help`},
		{[]string{"completion", "bash", "zsh"}, `unexpected argument "zsh"; see outbox-cdc completion bash --help`},
	} {
		if got, want := execute(t, tc.args...), (outcome{code: codeUsage, err: "outbox-cdc: " + tc.want + "\n"}); got != want {
			t.Errorf("%q: got %+v, want %+v", tc.args, got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ca.pem", "client.pem"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range completionDrivers {
		t.Run(d.name, func(t *testing.T) {
			cases := completionCases()
			lines := make([]string, len(cases))
			for i, c := range cases {
				lines[i] = c.line
			}
			got := d.offers(t, dir, lines)
			for i, c := range cases {
				slices.Sort(c.want)
				if !slices.Equal(got[i], c.want) {
					t.Errorf("%q: got %q, want %q", c.line, got[i], c.want)
				}
			}
		})
	}
}

// offers returns what the shell offers behind each line, in a directory, sorted.
func (d completionDriver) offers(t *testing.T, dir string, lines []string) [][]string {
	shell := harness.Tool(t, d.shell)
	completion := filepath.Join(t.TempDir(), "_outbox-cdc") // as zsh wants it
	made := execute(t, "completion", d.shell)
	if made.code != codeOK || made.err != "" {
		t.Fatalf("completion %s: %+v", d.shell, made)
	}
	driver := filepath.Join(t.TempDir(), "driver")
	for name, text := range map[string]string{completion: made.out, driver: d.script} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(shell, "-n", completion).CombinedOutput(); err != nil {
		t.Fatalf("%s -n: %v\n%s", d.shell, err, out)
	}
	args := append(slices.Clone(d.options), driver, completion)
	for _, line := range lines {
		if d.words != nil {
			line = d.words(line)
		}
		args = append(args, line)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", d.shell, err, out)
	}
	return parseOffers(t, string(out), lines)
}

// parseOffers reads what a driver wrote. Shells differ in whether a candidate is
// the whole word or the value behind a =, and whether a = is offered with a flag.
func parseOffers(t *testing.T, output string, lines []string) [][]string {
	t.Helper()
	var offers [][]string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		candidate, isOffer := strings.CutPrefix(line, "OFFER ")
		switch {
		case strings.HasPrefix(line, "LINE"):
			offers = append(offers, nil)
		case isOffer && strings.Contains(lines[len(offers)-1], "="):
			offers[len(offers)-1] = append(offers[len(offers)-1], candidate[strings.Index(candidate, "=")+1:])
		case isOffer:
			candidate, _, _ = strings.Cut(candidate, "=")
			offers[len(offers)-1] = append(offers[len(offers)-1], candidate)
		case line != "":
			t.Fatalf("unexpected output %q in\n%s", line, output)
		}
	}
	if len(offers) != len(lines) {
		t.Fatalf("got %d lines, want %d\n%s", len(offers), len(lines), output)
	}
	for i, o := range offers {
		slices.Sort(o)
		offers[i] = slices.Compact(o)
	}
	return offers
}

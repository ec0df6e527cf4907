package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A panic is one line and exit code 1, and a stack only for who asked for much.
// The process that panics is this test, started again.
func TestCrash(t *testing.T) {
	const variable = "OUTBOX_CDC_TEST_CRASH"
	if level := os.Getenv(variable); level != "" {
		p := &program{err: os.Stderr, verbose: level == "debug"}
		r := &relay{crash: p.crash}
		t.Error(r.guarded(func() error { panic("index out of range\n[5]") })())
		return
	}
	for level, stack := range map[string]bool{"info": false, "debug": true} {
		t.Run(level, func(t *testing.T) {
			var errs bytes.Buffer
			cmd := exec.Command(os.Args[0], "-test.run=^TestCrash$")
			cmd.Env, cmd.Stderr = append(os.Environ(), variable+"="+level), &errs
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != codeRuntime {
				t.Errorf("got %v, want exit code %d", err, codeRuntime)
			}
			first, rest, _ := strings.Cut(errs.String(), "\n")
			if !strings.HasPrefix(first, "outbox-cdc: internal error: index out of range; [5]; ") {
				t.Errorf("got %q", first)
			}
			if got := strings.Contains(rest, "crash_test.go"); got != stack || !stack && rest != "" {
				t.Errorf("got %q behind the line, want a stack: %t", rest, stack)
			}
		})
	}
}

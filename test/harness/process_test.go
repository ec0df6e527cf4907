//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell starts a shell script.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	dir := t.TempDir()
	p, err := StartProcess(Command{
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"GREETING=hello"}, Dir: dir,
		Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestProcessExitCodeAndOutput(t *testing.T) {
	tests := []struct {
		name, script string
		code         int
		out, err     string
	}{
		{"success", "echo $GREETING", 0, "hello\n", ""},
		{"failure", "echo no >&2; exit 7", 7, "", "no\n"},
		{"signal", "kill -TERM $$", 128 + int(syscall.SIGTERM), "", ""},
	}
	for _, tt := range tests {
		p := shell(t, tt.script)
		code, err := p.Wait(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if code != tt.code || p.Stdout() != tt.out || p.Stderr() != tt.err {
			t.Errorf("%s: got %d, %q, %q, want %d, %q, %q", tt.name, code, p.Stdout(), p.Stderr(), tt.code, tt.out, tt.err)
		}
	}
}

func TestProcessIsPausedWithAllBelowIt(t *testing.T) {
	p := shell(t, "(while :; do echo x; sleep 0.01; done); true")
	grows := func() error {
		before := len(p.Stdout())
		return poll(t.Context(), 10*time.Second, 5*time.Millisecond, func(context.Context) error {
			if len(p.Stdout()) == before {
				return errors.New("it prints nothing")
			}
			return nil
		})
	}
	if err := grows(); err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	before := p.Stdout()
	tick := time.NewTimer(150 * time.Millisecond)
	<-tick.C
	if p.Stdout() != before {
		t.Error("a paused process went on")
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := grows(); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(t.Context()); err != nil || code != 128+int(syscall.SIGKILL) {
		t.Errorf("got %d, %v after the kill", code, err)
	}
}

func TestProcessUsage(t *testing.T) {
	p := shell(t, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; read -r forever < /dev/null; sleep 1000")
	Eventually(t, 20*time.Second, func() error {
		if !strings.Contains(p.Stdout(), "done") {
			return errors.New("it is not done")
		}
		return nil
	})
	if runtime.GOOS == "linux" {
		checkUsage(t, p)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	checkUsage(t, p)
}

func checkUsage(t *testing.T, p *Process) {
	t.Helper()
	if cpu, err := p.CPU(); err != nil || cpu <= 0 || cpu > 20*time.Second {
		t.Errorf("got processor time %s, %v", cpu, err)
	}
	if rss, err := p.PeakRSS(); err != nil || rss < 256<<10 || rss > 1<<30 {
		t.Errorf("got peak memory %d, %v", rss, err)
	}
}

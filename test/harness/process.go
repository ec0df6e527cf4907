//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Command says which program a Process runs, and how.
type Command struct {
	Path string
	Args []string
	// Env is added to this process's environment, or replaces what is there,
	// as "NAME=value".
	Env []string
	Dir string
	// Stdout and Stderr are the files that output is appended to. They may be
	// the same; an empty one goes nowhere.
	Stdout, Stderr string

	credential *syscall.Credential
	clean      bool // without the variables that outbox-cdc reads
}

// Process is a running program. It is in a process group of its own, so a
// Ctrl-C at the terminal reaches the tests, not what they test; and it ends
// with this process at the latest.
type Process struct {
	cmd     *exec.Cmd
	command Command
	done    chan struct{} // closed when the process has been waited for
}

// StartProcess starts a program. The caller ends it with Kill or waits for it.
func StartProcess(c Command) (*Process, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(c.inherited(), c.Env...)
	cmd.Dir = c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.credential}
	stdout, err := appendTo(c.Stdout)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := appendTo(c.Stderr)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	p := &Process{cmd: cmd, command: c, done: make(chan struct{})}
	if err := guardProcess(p.PID()); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	go func() {
		_ = cmd.Wait() // the state tells
		forgetProcess(p.PID())
		close(p.done)
	}()
	return p, nil
}

// inherited is the part of this process's environment that the program sees.
func (c Command) inherited() []string {
	env := os.Environ()
	if !c.clean {
		return env
	}
	return slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "OUTBOX_CDC_") || strings.HasPrefix(v, "PG")
	})
}

// appendTo opens an output file.
func appendTo(name string) (*os.File, error) {
	if name == "" {
		name = os.DevNull
	}
	return os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}

// PID is the process's id, also after it has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to this process alone.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Running() {
		return fmt.Errorf("%s has ended: %s", filepath.Base(p.command.Path), p.cmd.ProcessState)
	}
	return p.cmd.Process.Signal(sig)
}

// Pause stops the process and all below it with SIGSTOP.
func (p *Process) Pause() error { return p.signalTree(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signalTree(syscall.SIGCONT) }

func (p *Process) signalTree(sig syscall.Signal) error {
	if !p.Running() {
		return p.Signal(sig) // says that it has ended
	}
	return signalTree(p.PID(), sig)
}

// Kill ends the process and all below it with SIGKILL, and waits until it is
// gone. A process that has ended already is no error.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	if err := killTree(p.PID()); err != nil {
		return fmt.Errorf("kill %s: %w", filepath.Base(p.command.Path), err)
	}
	<-p.done
	return nil
}

// Wait waits for the end of the process and returns its exit code; one that a
// signal ended has 128 and the signal's number, as in a shell. When ctx ends
// first, the process goes on and ctx's cause is returned.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return 0, fmt.Errorf("%s (pid %d) has not ended: %w", filepath.Base(p.command.Path), p.PID(), context.Cause(ctx))
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return p.cmd.ProcessState.ExitCode(), nil
}

// Stop sends sig and waits for the end of the process. It returns the exit
// code, as Wait does, and how long that took.
func (p *Process) Stop(ctx context.Context, sig syscall.Signal) (int, time.Duration, error) {
	begun := time.Now()
	if err := p.Signal(sig); err != nil {
		return 0, 0, err
	}
	code, err := p.Wait(ctx)
	return code, time.Since(begun), err
}

// Stdout is what the process has written to its standard output so far.
func (p *Process) Stdout() string { return contents(p.command.Stdout) }

// Stderr is what the process has written to its standard error so far.
func (p *Process) Stderr() string { return contents(p.command.Stderr) }

func contents(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(b)
}

// tail returns the last lines of a file, for error messages.
func tail(name string, lines int) string {
	all := strings.Split(strings.TrimRight(contents(name), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

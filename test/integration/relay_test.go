//go:build linux || darwin

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// relay is a running "outbox-cdc run" on an outbox.
type relay struct {
	*harness.Relay
	o *outbox
}

// launch starts the relay with flags beside what leads it to the outbox and its
// topics, and waits for nothing.
func (o *outbox) launch(flags ...string) *relay {
	o.t.Helper()
	args, env := o.invocation(flags)
	return &relay{Relay: harness.NewRelay(o.t, env, args...), o: o}
}

// invocation returns the arguments and the environment that lead the relay to
// the outbox and its topics, with flags that are stronger.
func (o *outbox) invocation(flags []string) (args, env []string) {
	args = append([]string{"run", "--slot", o.slot, "--publication", o.publication, "--topic", o.topicPrefix + ".{aggregate_type}"}, flags...)
	// A flag that is a list adds to what stands in front of it; the environment
	// it replaces.
	env = []string{o.dsn(), "OUTBOX_CDC_TABLE=" + o.table, "OUTBOX_CDC_BROKERS=" + strings.Join(o.kafka.Addrs(), ",")}
	return args, env
}

// start is launch, and waits until the session is up.
func (o *outbox) start(flags ...string) *relay {
	o.t.Helper()
	r := o.launch(flags...)
	r.awaitLog("session started", 1)
	return r
}

// logLine is one line of the relay's log.
type logLine map[string]any

// text returns an attribute of the line as text.
func (l logLine) text(name string) string {
	if l[name] == nil {
		return ""
	}
	return fmt.Sprint(l[name])
}

// log returns the lines with a message, in order; all lines if it is empty.
func (r *relay) log(message string) []logLine {
	var lines []logLine
	for line := range strings.Lines(r.Stderr()) {
		var parsed logLine
		if json.Unmarshal([]byte(line), &parsed) == nil && (message == "" || parsed.text("msg") == message) {
			lines = append(lines, parsed)
		}
	}
	return lines
}

// awaitLog waits until the log holds a message n times.
func (r *relay) awaitLog(message string, n int) {
	r.o.t.Helper()
	r.awaitLogWithin(patience, message, n)
}

// awaitLogWithin is awaitLog with another deadline.
func (r *relay) awaitLogWithin(timeout time.Duration, message string, n int) {
	r.o.t.Helper()
	harness.Eventually(r.o.t, timeout, func() error {
		if found := len(r.log(message)); found < n {
			r.mustRun()
			return fmt.Errorf("the log says %q %d times, not yet %d", message, found, n)
		}
		return nil
	})
}

// mustRun ends the test if the relay has ended.
func (r *relay) mustRun() {
	r.o.t.Helper()
	if !r.Running() {
		r.o.t.Fatalf("the relay has ended:\n%s", r.Stderr())
	}
}

// stop asks the relay to stop, which must succeed, and returns how long that
// took.
func (r *relay) stop() time.Duration {
	r.o.t.Helper()
	ctx, cancel := context.WithTimeout(r.o.t.Context(), patience)
	defer cancel()
	code, took, err := r.Stop(ctx, syscall.SIGTERM)
	if err != nil {
		r.o.t.Fatal(err)
	}
	if code != 0 {
		r.o.t.Fatalf("the relay ended with %d instead of 0:\n%s", code, r.Stderr())
	}
	return took
}

// kill ends the relay with SIGKILL.
func (r *relay) kill() {
	r.o.t.Helper()
	if err := r.Kill(); err != nil {
		r.o.t.Fatal(err)
	}
}

// pause and resume freeze the relay and let it go on.
func (r *relay) pause() {
	r.o.t.Helper()
	if err := r.Pause(); err != nil {
		r.o.t.Fatal(err)
	}
}

func (r *relay) resume() {
	r.o.t.Helper()
	if err := r.Resume(); err != nil {
		r.o.t.Fatal(err)
	}
}

// expectExit waits until the relay ends by itself, with an exit code and a last
// line on standard error that holds the given texts.
func (r *relay) expectExit(timeout time.Duration, code int, texts ...string) {
	r.o.t.Helper()
	ctx, cancel := context.WithTimeoutCause(r.o.t.Context(), timeout, fmt.Errorf("not within %s", timeout))
	defer cancel()
	got, err := r.Wait(ctx)
	if err != nil {
		r.o.t.Fatal(err)
	}
	expectFailure(r.o.t, harness.Result{Code: got, Stdout: r.Stdout(), Stderr: r.Stderr()}, code, texts...)
}

// expectFailure checks the exit code of a command and the one line by which it
// tells an operator what is wrong.
func expectFailure(t testing.TB, result harness.Result, code int, texts ...string) {
	t.Helper()
	if result.Code != code {
		t.Fatalf("exit code %d instead of %d:\n%s", result.Code, code, result.Stderr)
	}
	var said []string
	for line := range strings.Lines(result.Stderr) {
		if message, found := strings.CutPrefix(strings.TrimSpace(line), "outbox-cdc: "); found {
			said = append(said, message)
		}
	}
	if len(said) != 1 {
		t.Fatalf("%d lines for the operator instead of one:\n%s", len(said), result.Stderr)
	}
	for _, text := range texts {
		if !strings.Contains(said[0], text) {
			t.Errorf("the line for the operator does not hold %q:\n%s", text, said[0])
		}
	}
}

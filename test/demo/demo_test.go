//go:build linux || darwin

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// show is what a demo has shown so far. Any goroutine may use it.
type show struct {
	sync.Mutex
	text bytes.Buffer
}

func (s *show) Write(b []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.text.Write(b)
}

func (s *show) String() string {
	s.Lock()
	defer s.Unlock()
	return s.text.String()
}

// TestDemoRunsUntilInterrupted runs the demo on orders of a file, with KEEP=1,
// and interrupts it once it has gone through the kill and come back.
func TestDemoRunsUntilInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "few.jsonl")
	orders := `{"order": "ä1", "items": "` + strings.Repeat("long ", 50) + `"}
{"order": 2, "event": "OrderCancelledByCustomer", "total": 1.50}
{"order": 2, "event": "OrderPaid", "rollback": true}
{"order": 3}
{"order": 3, "event": "OrderPaid"}
`
	if err := os.WriteFile(file, []byte(orders), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithTimeout(t.Context(), 2*time.Minute)
	defer interrupt()
	var seen show
	ended := make(chan error, 1)
	go func() { ended <- demo(ctx, &screen{w: &seen}, file, true) }()
	harness.Eventually(t, 2*time.Minute, func() error {
		_, after, back := strings.Cut(seen.String(), "outbox-cdc run again")
		if !back || strings.Count(after, "outbox.event.order") < 6 {
			return errors.New("not back yet")
		}
		return nil
	})
	interrupt()
	if err := <-ended; err != nil {
		t.Fatalf("%v; shown:\n%s", err, &seen)
	}
	text := seen.String()
	for _, part := range []string{"$ outbox-cdc init", "rolled back", "killed with SIGKILL", "stopped in order", "Every committed event is in Kafka"} {
		if !strings.Contains(text, part) {
			t.Errorf("the demo does not show %q", part)
		}
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) > width+1 || strings.Contains(line, "\x1b") {
			t.Errorf("not a line of %d columns without colours: %q", width, line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestDemoNamesBadInput(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.jsonl")
	if err := demo(t.Context(), &screen{w: &show{}}, missing, false); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a file that is not there: got %v", err)
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string
	}{{"", ""}, {"four", "four"}, {"fives", "fiv…"}, {"äöüß", "äöüß"}, {"äöüßz", "äöü…"}} {
		if got := cut(tt.text, 4); got != tt.want {
			t.Errorf("cut(%q): got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestMilliseconds(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{{870 * time.Microsecond, "0.9 ms"}, {9940 * time.Microsecond, "9.9 ms"}, {123456 * time.Microsecond, "123 ms"}, {3210 * time.Millisecond, "3.21 s"}} {
		if got := milliseconds(tt.d); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.d, got, tt.want)
		}
	}
}

//go:build linux || darwin

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// width is how many columns a line takes at most.
const width = 100

// colour is an SGR code.
type colour string

const (
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
)

// screen is what the demo shows. Any goroutine may use it.
type screen struct {
	mu       sync.Mutex // guards w
	w        io.Writer
	coloured bool
}

// newScreen shows on a file, in colours if it is a terminal and nobody minds
// (no-color.org).
func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{w: f, coloured: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// line shows one line, cut to the width.
func (s *screen) line(c colour, format string, args ...any) {
	text := cut(strings.TrimRight(fmt.Sprintf(format, args...), " "), width)
	if s.coloured && c != "" {
		text = "\x1b[" + string(c) + "m" + text + "\x1b[0m"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.w, text)
}

func (s *screen) title() {
	s.line(bold, "outbox-cdc: rows in, records out, on a real PostgreSQL and a real Kafka")
	s.space()
}

// space parts what follows from what was shown.
func (s *screen) space() { s.line("", "") }

// progress shows what the harness has to say, one line with each Write.
func (s *screen) progress() io.Writer { return progress{s} }

type progress struct{ *screen }

func (p progress) Write(b []byte) (int, error) {
	text := strings.TrimSpace(strings.TrimPrefix(string(b), "harness: "))
	if strings.HasSuffix(text, "...") {
		p.line(dim, "  … %s", text)
	} else {
		p.line(green, "  ✓ %s", text)
	}
	return len(b), nil
}

// command shows what one would type.
func (s *screen) command(text string) {
	s.line(cyan, "  $ %s", text)
}

// output shows what a command has printed.
func (s *screen) output(text string) {
	for line := range strings.Lines(text) {
		s.line(dim, "    %s", strings.TrimSpace(line))
	}
}

// columns are latency, topic, partition, key, type and payload.
const columns = "%8s  %-18s  %1s  %-8s  %-12s  %s"

func (s *screen) header() {
	s.space()
	s.line("", "  A service commits orders, each with its event in one transaction; some it rolls back.")
	s.space()
	s.line(bold, columns, "latency", "topic", "p", "key", "type", "payload")
}

// record shows a record as it arrives; late ones had to wait for the relay.
func (s *screen) record(r harness.Record, latency time.Duration, late bool) {
	kind, _ := r.Header("event_type")
	c := colour("")
	if late {
		c = yellow
	}
	s.line(c, columns, milliseconds(latency), cut(r.Topic, 18), fmt.Sprint(r.Partition), string(r.Key[:min(len(r.Key), 8)]), cut(kind, 12), r.Value)
}

// aside shows what the service did and Kafka has not seen.
func (s *screen) aside(what string, c change) {
	s.line(dim, columns, "", what, "", "", cut(c.event, 12), "order "+c.order)
}

func (s *screen) killed(pid int) {
	s.rule(red, "the relay (pid %d) is killed with SIGKILL; the service goes on", pid)
}

func (s *screen) restarted(pid, away int) {
	s.rule(green, "outbox-cdc run again (pid %d); %d events were committed meanwhile", pid, away)
}

func (s *screen) stopped(took time.Duration) {
	s.rule(green, "SIGTERM: the relay has stopped in order after %s", milliseconds(took))
}

// rule shows a line across the screen.
func (s *screen) rule(c colour, format string, args ...any) {
	text := "── " + fmt.Sprintf(format, args...) + " "
	s.line(c, "%s%s", text, strings.Repeat("─", max(0, width-utf8.RuneCountInString(text))))
}

// summary is the end of the show.
func (s *screen) summary(v verdict, l latencies) {
	s.space()
	s.count("", "committed", v.committed)
	s.count("", "rolled back", v.rolledBack)
	s.count("", "published", v.published)
	s.fault("lost", v.lost)
	s.fault("doubled", v.doubled)
	s.fault("out of order", v.disordered)
	if v.leaked > 0 {
		s.fault("uncommitted", v.leaked)
	}
	s.line("", "  latency from commit to consumer: median %s, p99 %s; the first event of a partition waits",
		milliseconds(l.median), milliseconds(l.p99))
	s.line("", "  until the partition is acquired%s", l.waited())
	s.space()
	if v.kept() {
		s.line(green, "  Every committed event is in Kafka, once, in commit order, and nothing else is.")
	} else {
		s.line(red, "  The promise is broken.")
	}
}

func (l latencies) waited() string {
	if l.late == 0 {
		return ""
	}
	return fmt.Sprintf("; %d events waited for the relay to be back, %s at most", l.late, milliseconds(l.longest))
}

func (s *screen) count(c colour, what string, n int) { s.line(c, "  %-12s %5d", what, n) }

// fault counts what must not be.
func (s *screen) fault(what string, n int) {
	if n == 0 {
		s.count(green, what, n)
	} else {
		s.count(red, what, n)
	}
}

// milliseconds is a duration in three digits.
func milliseconds(d time.Duration) string {
	switch ms := float64(d) / 1e6; {
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.2f s", ms/1e3)
	}
}

// cut shortens a text to n columns.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

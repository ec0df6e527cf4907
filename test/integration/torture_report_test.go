//go:build linux || darwin

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// summary is what a torture has come to.
type summary struct {
	Seed       uint64       `json:"seed"`
	Postgres   int          `json:"postgresql"`
	Kafka      string       `json:"kafka"`
	Processors int          `json:"processors"`
	Seconds    float64      `json:"seconds"`
	Committed  int          `json:"committed"`
	Records    int          `json:"records"`
	Injected   int          `json:"injected"`
	Violations int          `json:"violations"`
	Faults     []faultCount `json:"faults"`
}

// faultCount is what was seen of one fault. A violation counts for each of
// those that were there when the event was on its way.
type faultCount struct {
	Name          string  `json:"name"`
	Count         int     `json:"count"`
	Alone         int     `json:"alone"`
	Lost          int     `json:"lost"`
	Doubled       int     `json:"doubled"`
	Disordered    int     `json:"out_of_order"`
	Other         int     `json:"other"`
	Allowed       int     `json:"allowed"` // duplicates and dead letters that docs/guarantees.md names
	WorstRecovery float64 `json:"worst_recovery_seconds"`
}

// unattributed is the row of violations that happened beside all faults.
const unattributed = "(none)"

// conclude has the oracle judge, shows evidence of each violation and prints
// the summary.
func (x *torture) conclude(seed uint64) {
	t := x.o.t
	t.Helper()
	took := time.Since(x.begun)
	s := summary{
		Seed: seed, Postgres: x.o.pg.Version(), Kafka: harness.KafkaVersion, Processors: runtime.NumCPU(), Seconds: took.Seconds(), Injected: len(x.timeline),
	}
	counts := x.counts()
	for _, o := range []*outbox{x.o, x.neighbour} {
		except := exceptions{rerouted: "partitions were added and the routing was changed"}
		for _, i := range x.timeline {
			except.windows = append(except.windows, i.window(x, o))
		}
		j := o.judge(except)
		s.Committed, s.Records, s.Violations = s.Committed+len(j.committed), s.Records+j.read, s.Violations+len(j.found)
		for name, n := range j.allowed {
			counts[name].Allowed += n
		}
		x.accuse(o, j.found, counts)
	}
	for _, f := range tortures() {
		if counts[f.name].Count > 0 {
			s.Faults = append(s.Faults, *counts[f.name])
		}
	}
	if beside := counts[unattributed]; *beside != (faultCount{Name: unattributed}) {
		s.Faults = append(s.Faults, *beside)
	}
	t.Logf("summary:\n%s", s)
	if name := os.Getenv(envSummary); name != "" {
		text, err := json.MarshalIndent(s, "", "  ")
		x.must(err)
		x.must(os.WriteFile(name, append(text, '\n'), 0o644))
	}
}

// counts begins a row for each fault.
func (x *torture) counts() map[string]*faultCount {
	counts := map[string]*faultCount{unattributed: {Name: unattributed}}
	for _, f := range tortures() {
		counts[f.name] = &faultCount{Name: f.name}
	}
	for _, i := range x.timeline {
		c := counts[i.name]
		c.Count++
		if i.alone {
			c.Alone++
			c.WorstRecovery = max(c.WorstRecovery, i.recovery.Seconds())
		}
	}
	return counts
}

// accuse shows violations with the faults that there were when the event was
// on its way, and counts them.
func (x *torture) accuse(o *outbox, found []violation, counts map[string]*faultCount) {
	x.o.t.Helper()
	const shown = 50
	for n, v := range found {
		present := x.present(o, v.end)
		if n < shown {
			x.o.t.Errorf("violation: %s: %s\n%s", v.kind, v.text, lines(present))
		}
		accused := make(map[string]bool)
		for _, i := range present {
			accused[i.name] = true
		}
		if len(accused) == 0 {
			accused[unattributed] = true
		}
		for name := range accused {
			counts[name].add(v.kind)
		}
	}
	if len(found) > shown {
		x.o.t.Errorf("and %d more violations", len(found)-shown)
	}
}

// present returns the faults that there were when an event was on its way.
func (x *torture) present(o *outbox, end pglogrepl.LSN) []*injection {
	var present []*injection
	for _, i := range x.timeline {
		if i.begin(x, o) < end && end <= i.to {
			present = append(present, i)
		}
	}
	return present
}

// add counts a violation.
func (c *faultCount) add(k kind) {
	switch k {
	case lost:
		c.Lost++
	case doubled:
		c.Doubled++
	case disordered:
		c.Disordered++
	default:
		c.Other++
	}
}

func lines(injected []*injection) string {
	var text strings.Builder
	for _, i := range injected {
		fmt.Fprintf(&text, "%s\n", i)
	}
	return text.String()
}

// String is the summary as a table.
func (s summary) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d faults over %d events in %.0f min, with PostgreSQL %d and three brokers of Kafka %s on %d processors, seed %d: %d records, %d violations.\n\n",
		s.Injected, s.Committed, s.Seconds/60, s.Postgres, s.Kafka, s.Processors, s.Seed, s.Records, s.Violations)
	text.WriteString("| fault | count | alone | lost | duplicates | out of order | other | allowed, and why | worst recovery |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range s.Faults {
		recovery := "not measured"
		if f.Alone > 0 {
			recovery = fmt.Sprintf("%.1f s", f.WorstRecovery)
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %d | %d | %d | %d | %s | %s |\n",
			f.Name, f.Count, f.Alone, f.Lost, f.Doubled, f.Disordered, f.Other, f.allowed(), recovery)
	}
	return text.String()
}

// allowed is how often docs/guarantees.md allowed something, and which of its
// rows.
func (c faultCount) allowed() string {
	for _, f := range tortures() {
		switch {
		case c.Allowed == 0 || f.name != c.Name:
		case f.setAside != nil:
			return fmt.Sprintf("%d dead letters: an event that can never be published", c.Allowed)
		default:
			return fmt.Sprintf("%d duplicates: %s", c.Allowed, f.doubles)
		}
	}
	return fmt.Sprint(c.Allowed)
}

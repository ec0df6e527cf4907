//go:build linux || darwin

package main

import "fmt"

// target is what outbox-cdc is to reach on any machine.
type target struct {
	what    string
	limit   float64
	atLeast bool // rather than at most
	digits  int
	unit    string
	// measured returns the figure to compare, and whether there is one.
	measured func(*report) (float64, bool)
}

// verdict is what has become of a target.
type verdict struct {
	what, measured, limit, outcome string
}

// The outcomes.
const (
	met         = "met"
	missed      = "missed"
	notMeasured = "not measured"
)

func (t target) judge(r *report) verdict {
	v := verdict{what: t.what, measured: "–", limit: "≤ " + number(t.limit, t.digits) + t.unit, outcome: notMeasured}
	if t.atLeast {
		v.limit = "≥ " + number(t.limit, t.digits) + t.unit
	}
	got, ok := t.measured(r)
	if !ok {
		return v
	}
	v.measured, v.outcome = number(got, t.digits)+t.unit, missed
	if t.atLeast && got >= t.limit || !t.atLeast && got <= t.limit {
		v.outcome = met
	}
	return v
}

// targets are all of them. A figure is the median over the runs, but memory is
// the most that any run has needed.
func targets() []target {
	const atLeast, atMost = true, false
	return []target{
		{"drain, 100 rows a transaction, to naive reading", 1.2, atLeast, 2, " ×", ratio("drain-100", naive)},
		{"drain, 100 rows a transaction, to best paced reading", 0.8, atLeast, 2, " ×", ratio("drain-100", paced)},
		{"drain, 1 row a transaction, to naive reading", 1, atLeast, 2, " ×", ratio("drain-1", naive)},
		{"CPU, 100 rows a transaction", 5, atMost, 2, " s per 1 M rows", of("drain-100", cpuPerMillion)},
		{"CPU, 1 row a transaction", 8, atMost, 2, " s per 1 M rows", of("drain-1", cpuPerMillion)},
		{"CPU, 1 M rows in one transaction", 5, atMost, 2, " s per 1 M rows", of("drain-1m", cpuPerMillion)},
		{"peak memory of all cases", 96, atMost, 1, " MiB", mostMemory},
		{"memory when idle", 30, atMost, 1, " MiB", of("idle", memory)},
		{"CPU when idle", 0.5, atMost, 2, " %", of("idle", cpuShare)},
		{"commit to consumer at 100 rows/s, p50", 1.2, atMost, 2, " ms", of("latency-100", latency50)},
		{"commit to consumer at 100 rows/s, p99", 4, atMost, 2, " ms", of("latency-100", latency99)},
		{"commit to consumer at 1,000 rows/s, p99", 6, atMost, 2, " ms", of("latency-1000", latency99)},
		{"commit to consumer at 10,000 rows/s, p99", 100, atMost, 2, " ms", of("latency-10000", latency99)},
		{"exec to first record", 200, atMost, 0, " ms", of("start", firstRecord)},
		{"exec to all 8 partitions writing", 400, atMost, 0, " ms", of("start", allWriting)},
	}
}

// of is the median of a figure of outbox-cdc.
func of(name string, f figure) func(*report) (float64, bool) {
	return func(r *report) (float64, bool) {
		s, measured := r.summary(name, ours, f)
		return s.Median, measured
	}
}

// ratio is that of outbox-cdc's rows per second to another's.
func ratio(name, other string) func(*report) (float64, bool) {
	return func(r *report) (float64, bool) {
		mine, measured := r.summary(name, ours, rowRate)
		theirs, compared := r.summary(name, other, rowRate)
		if !measured || !compared {
			return 0, false
		}
		return mine.Median / theirs.Median, true
	}
}

// mostMemory is the most that outbox-cdc has needed in any run.
func mostMemory(r *report) (most float64, measured bool) {
	for _, c := range r.Cases {
		if s, ok := r.summary(c.Name, ours, peakMemory); ok {
			most, measured = max(most, s.Max), true
		}
	}
	return most, measured
}

// judge judges all targets, and says how many of those that were measured are
// met.
func judge(r *report) (verdicts []verdict, outcome string) {
	var yes, no int
	for _, t := range targets() {
		v := t.judge(r)
		switch v.outcome {
		case met:
			yes++
		case missed:
			no++
		}
		verdicts = append(verdicts, v)
	}
	outcome = fmt.Sprintf("%d of %d targets are met", yes, yes+no)
	if rest := len(verdicts) - yes - no; rest > 0 {
		outcome += fmt.Sprintf(", %d are not measured", rest)
	}
	return verdicts, outcome
}

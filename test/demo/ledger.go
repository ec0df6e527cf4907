//go:build linux || darwin

package main

import (
	"slices"
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// ledger holds what the service has committed and what has arrived.
type ledger struct {
	committed  []string       // ids of events, in commit order
	rank       map[string]int // their places in that order
	rolledBack map[string]bool
	arrived    map[string]bool
	live, late []time.Duration // commit to arrival: while the relay ran, and not
}

func newLedger() *ledger {
	return &ledger{rank: make(map[string]int), rolledBack: make(map[string]bool), arrived: make(map[string]bool)}
}

// write notes what the service has done.
func (l *ledger) write(o outcome) {
	if o.rollback {
		l.rolledBack[o.id] = true
		return
	}
	l.rank[o.id] = len(l.committed)
	l.committed = append(l.committed, o.id)
}

// arrive notes a record; late says that it was committed while no relay ran.
func (l *ledger) arrive(id string, latency time.Duration, late bool) {
	if l.arrived[id] = true; late {
		l.late = append(l.late, latency)
	} else {
		l.live = append(l.live, latency)
	}
}

// complete reports whether everything committed has arrived.
func (l *ledger) complete() bool {
	return !slices.ContainsFunc(l.committed, func(id string) bool { return !l.arrived[id] })
}

// verdict is the account of a show.
type verdict struct {
	committed, rolledBack, published int
	// What must not be. leaked are events of transactions that were rolled
	// back.
	lost, doubled, disordered, leaked int
}

func (v verdict) kept() bool { return v.lost+v.doubled+v.disordered+v.leaked == 0 }

// judge compares what was committed with all that the topic holds, which is in
// the order of partitions and offsets.
func (l *ledger) judge(records []harness.Record) verdict {
	v := verdict{committed: len(l.committed), rolledBack: len(l.rolledBack), published: len(records)}
	seen := make(map[string]bool)
	last := make(map[int32]int) // the highest rank of each partition
	for _, r := range records {
		id := string(r.Key)
		rank, committed := l.rank[id]
		switch {
		case !committed:
			v.leaked++
			continue
		case seen[id]:
			v.doubled++
		case rank < last[r.Partition]:
			v.disordered++
		}
		seen[id] = true
		last[r.Partition] = max(last[r.Partition], rank)
	}
	v.lost = len(l.committed) - len(seen)
	return v
}

// latencies is how long events took from their commit to the consumer.
type latencies struct {
	median, p99 time.Duration // while the relay ran
	late        int           // committed while it did not
	longest     time.Duration // of those
}

func (l *ledger) latencies() latencies {
	var sum latencies
	if n := len(l.live); n > 0 {
		sorted := slices.Sorted(slices.Values(l.live))
		sum.median, sum.p99 = sorted[n/2], sorted[(n-1)*99/100]
	}
	if sum.late = len(l.late); sum.late > 0 {
		sum.longest = slices.Max(l.late)
	}
	return sum
}

// commitTime is when the transaction of a record was committed, to the
// microsecond, as its position tells.
func commitTime(r harness.Record) time.Time {
	header, _ := r.Header("position")
	position, err := decoder.ParsePosition(header)
	if err != nil {
		return r.Timestamp // to the millisecond
	}
	return time.UnixMicro(position.CommitTime)
}

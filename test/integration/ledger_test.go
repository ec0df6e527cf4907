//go:build linux || darwin

package integration

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// outcome is what a writer knows about a row.
type outcome byte

const (
	unknown    outcome = iota // never inserted, or the server went away meanwhile
	committed                 // COMMIT has succeeded
	rolledBack                // the row was rolled back, alone or with its transaction
)

// ledger is what was committed, and in which order, without the product's
// help. The writers know which of their rows were committed; the order is that
// of the write-ahead log, from a slot of the test's own, with another output
// plugin than the product's.
type ledger struct {
	o    *outbox
	slot string

	mu       sync.Mutex // guards what follows
	last     int64      // the last number given to a row
	outcomes map[int64]outcome
	counts   map[outcome]int

	// events are those that were read so far. One goroutine may read.
	events []walEvent
}

func newLedger(o *outbox) *ledger {
	l := &ledger{o: o, slot: o.slot + "_ledger", outcomes: make(map[int64]outcome), counts: make(map[outcome]int)}
	o.exec("SELECT pg_create_logical_replication_slot($1, 'test_decoding')", l.slot)
	return l
}

// take gives out the next n numbers and returns the first.
func (l *ledger) take(n int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.last + 1
	l.last += int64(n)
	return first
}

// note records what became of rows.
func (l *ledger) note(what outcome, numbers ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range numbers {
		l.counts[l.outcomes[n]]--
		l.counts[what]++
		l.outcomes[n] = what
	}
}

// outcome returns what a writer knows about the row with an id.
func (l *ledger) outcome(id string) outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outcomes[numberOf(id)]
}

// count returns how many rows had an outcome.
func (l *ledger) count(what outcome) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[what]
}

// idPrefix and twelve hex digits are the id of a row.
const idPrefix = "00000000-0000-4000-8000-"

// idOf returns the id of the row with a number, which numberOf reads again.
func idOf(number int64) string { return fmt.Sprintf("%s%012x", idPrefix, number) }

// numberOf returns 0 for an id that is not one of ours.
func numberOf(id string) int64 {
	digits, ours := strings.CutPrefix(id, idPrefix)
	if !ours {
		return 0
	}
	n, err := strconv.ParseInt(digits, 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// walEvent is a row of the outbox as the write-ahead log has it.
type walEvent struct {
	id string
	// end is the end of the transaction's commit record: a slot confirmed up
	// to there has this event behind it.
	end pglogrepl.LSN
}

// committed returns all committed rows of the outbox in commit order.
func (l *ledger) committed() []walEvent {
	l.o.t.Helper()
	// Rows that writers commit meanwhile may be in one and not in the other.
	known := l.known()
	l.read()
	l.check(known, l.events)
	return l.events
}

// read reads what was committed since it was called last, and gives up the
// write-ahead log behind it.
func (l *ledger) read() {
	l.o.t.Helper()
	target := l.o.walEnd() // writers may go on for ever
	for end := l.readSome(); 0 < end && end < target; end = l.readSome() {
	}
}

// readSome reads some transactions and returns the end of the last, 0 if there
// were none.
//
// test_decoding writes a line for each row and each end of a transaction; the
// position that comes with the latter is the end of the commit record.
func (l *ledger) readSome() pglogrepl.LSN {
	l.o.t.Helper()
	// The id is found by hand: regular expressions are slow.
	const query = `SELECT lsn::text || CASE WHEN data LIKE 'COMMIT%' THEN ''
			ELSE substr(data, strpos(left(data, 600), ' id['), 80) END
		FROM pg_logical_slot_peek_changes($1, NULL, 100000, 'skip-empty-xacts', '1')
		WHERE data LIKE 'COMMIT%' OR (starts_with(data, 'table ' || $2) AND strpos(left(data, 200), ': INSERT: ') > 0)`
	table := l.o.config.leaves
	if table == "" {
		table = l.o.table + ":"
	}
	lines, err := harness.Query[string](l.o.t.Context(), l.o.pg, l.o.database, query, l.slot, table)
	if err != nil {
		l.o.t.Fatalf("read the ledger: %v", err)
	}
	var end pglogrepl.LSN
	open := len(l.events) // the first event of the current transaction
	for _, line := range lines {
		position, column, isRow := strings.Cut(line, " ")
		if isRow {
			l.events = append(l.events, walEvent{id: strings.Clone(columnValue(column))})
			continue
		}
		if end, err = pglogrepl.ParseLSN(position); err != nil {
			l.o.t.Fatalf("read the ledger: %v", err)
		}
		if open > 0 && end <= l.events[open-1].end {
			l.events = l.events[:open] // read again after a crash of the server
		}
		for i := open; i < len(l.events); i++ {
			l.events[i].end = end
		}
		open = len(l.events)
	}
	if end != 0 {
		l.o.exec("SELECT pg_replication_slot_advance($1, $2::text::pg_lsn)", l.slot, end.String())
	}
	return end
}

// columnValue returns the value of a column as test_decoding prints it:
// name[type]:'value', or without quotes if it is a number.
func columnValue(column string) string {
	_, v, _ := strings.Cut(column, "]:")
	if quoted, found := strings.CutPrefix(v, "'"); found {
		v, _, _ = strings.Cut(quoted, "'")
		return v
	}
	v, _, _ = strings.Cut(v, " ")
	return v
}

// known returns what the writers know now.
func (l *ledger) known() map[int64]outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.outcomes)
}

// check compares what the writers know with the write-ahead log: an oracle
// that missed rows would find everything in order.
func (l *ledger) check(known map[int64]outcome, events []walEvent) {
	l.o.t.Helper()
	logged := make(map[int64]bool, len(events))
	for _, e := range events {
		logged[numberOf(e.id)] = true
		if known[numberOf(e.id)] == rolledBack {
			l.o.t.Fatalf("ledger: %s was rolled back and is committed in the write-ahead log", e.id)
		}
	}
	for n, what := range known {
		if what == committed && !logged[n] {
			l.o.t.Fatalf("ledger: %s was committed and is not in the write-ahead log", idOf(n))
		}
	}
}

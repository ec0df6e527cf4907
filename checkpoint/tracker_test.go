package checkpoint

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

type step func(*Tracker)

func begin(n int) step {
	return func(t *Tracker) {
		for range n {
			t.Begin()
		}
	}
}

func mark(lsn pglogrepl.LSN) step { return markAt(lsn, time.Time{}) }

func markAt(lsn pglogrepl.LSN, commitTime time.Time) step {
	return func(t *Tracker) { t.Mark(Mark{LSN: lsn, CommitTime: commitTime}) }
}

func ack(s Segment, n int) step { return func(t *Tracker) { t.Ack(s, n) } }

func TestTracker(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	later := noon.Add(time.Minute)
	for _, tt := range []struct {
		name    string
		steps   []step
		want    Mark
		pending int
	}{
		{name: "nothing begun"},
		{name: "a mark with nothing ahead", steps: []step{mark(10)}, want: Mark{LSN: 10}},
		{name: "marks with nothing ahead", steps: []step{mark(10), mark(20)}, want: Mark{LSN: 20}},
		{name: "a mark that goes back", steps: []step{mark(20), mark(10)}, want: Mark{LSN: 20}},
		{name: "an event that was not acknowledged", steps: []step{begin(1), mark(10)}, pending: 1},
		{name: "an event that was acknowledged behind the mark", steps: []step{begin(1), mark(10), ack(0, 1)}, want: Mark{LSN: 10}},
		{name: "an event that was acknowledged ahead of the mark", steps: []step{begin(1), ack(0, 1), mark(10)}, want: Mark{LSN: 10}},
		{name: "an event without a mark", steps: []step{mark(10), begin(1), ack(0, 1)}, want: Mark{LSN: 10}},
		{
			name:    "a transaction in part",
			steps:   []step{mark(10), begin(3), mark(20), ack(0, 2)},
			want:    Mark{LSN: 10},
			pending: 1,
		},
		{name: "a transaction in parts", steps: []step{begin(3), mark(20), ack(0, 2), ack(0, 1)}, want: Mark{LSN: 20}},
		{
			name:  "a transaction whose events come and go",
			steps: []step{begin(1), ack(0, 1), begin(2), ack(0, 2), begin(1), ack(0, 1), mark(20)},
			want:  Mark{LSN: 20},
		},
		{
			name:    "a keepalive behind an event that was not acknowledged",
			steps:   []step{begin(1), mark(10), mark(20)},
			pending: 1,
		},
		{name: "a keepalive behind an event", steps: []step{begin(1), mark(10), mark(20), ack(0, 1)}, want: Mark{LSN: 20}},
		{
			name:    "acknowledged out of order",
			steps:   []step{begin(1), mark(10), begin(1), mark(20), begin(1), mark(30), ack(2, 1), ack(1, 1)},
			pending: 1,
		},
		{
			name:  "acknowledged out of order, then the first",
			steps: []step{begin(1), mark(10), begin(1), mark(20), begin(1), mark(30), ack(2, 1), ack(1, 1), ack(0, 1)},
			want:  Mark{LSN: 30},
		},
		{
			name: "a hole in the middle",
			steps: []step{
				begin(1), mark(10), begin(1), mark(20), begin(1), mark(30), ack(0, 1), ack(2, 1),
			},
			want:    Mark{LSN: 10},
			pending: 1,
		},
		{
			name: "two holes, the first of which closes",
			steps: []step{
				begin(1), mark(10), begin(1), mark(20), begin(1), mark(30), begin(1), mark(40), mark(50),
				ack(1, 1), ack(3, 1), ack(0, 1),
			},
			want:    Mark{LSN: 20},
			pending: 1,
		},
		{
			name: "many transactions complete behind a hole",
			steps: []step{
				begin(1), mark(10), begin(1), mark(20), begin(1), mark(30), begin(1), mark(40), begin(1), mark(50), begin(1), mark(60),
				ack(2, 1), ack(1, 1), ack(4, 1), ack(3, 1),
			},
			pending: 2,
		},
		{
			name: "many transactions complete behind a hole that closes",
			steps: []step{
				begin(1), mark(10), begin(1), mark(20), begin(1), mark(30), begin(1), mark(40), begin(1), mark(50), begin(1), mark(60),
				ack(2, 1), ack(1, 1), ack(4, 1), ack(3, 1), ack(0, 1),
			},
			want:    Mark{LSN: 50},
			pending: 1,
		},
		{
			name:    "a keepalive behind a transaction that is complete behind a hole",
			steps:   []step{begin(1), mark(10), begin(1), mark(20), ack(1, 1), mark(30)},
			pending: 1,
		},
		{
			name:  "a keepalive behind a transaction that was complete behind a hole",
			steps: []step{begin(1), mark(10), begin(1), mark(20), ack(1, 1), mark(30), ack(0, 1)},
			want:  Mark{LSN: 30},
		},
		{
			name:  "the time of a transaction",
			steps: []step{begin(1), markAt(10, noon), ack(0, 1)},
			want:  Mark{LSN: 10, CommitTime: noon},
		},
		{
			name:  "the time stays when the next mark has none",
			steps: []step{begin(1), markAt(10, noon), ack(0, 1), mark(20)},
			want:  Mark{LSN: 20, CommitTime: noon},
		},
		{
			name:    "the time of the newest transaction that is complete",
			steps:   []step{begin(1), markAt(10, noon), begin(1), markAt(20, later), mark(30), ack(0, 1)},
			want:    Mark{LSN: 10, CommitTime: noon},
			pending: 1,
		},
		{
			name:  "the time of the newest transaction of several",
			steps: []step{begin(1), markAt(10, noon), begin(1), markAt(20, later), mark(30), ack(1, 1), ack(0, 1)},
			want:  Mark{LSN: 30, CommitTime: later},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tracker := NewTracker()
			for _, s := range tt.steps {
				s(tracker)
			}
			if got := tracker.Confirmed(); got != tt.want {
				t.Errorf("confirmed: got %+v, want %+v", got, tt.want)
			}
			if got := tracker.Pending(); got != tt.pending {
				t.Errorf("pending: got %d, want %d", got, tt.pending)
			}
		})
	}
}

func TestTrackerSegments(t *testing.T) {
	tracker := NewTracker()
	first, second := tracker.Begin(), tracker.Begin()
	tracker.Mark(Mark{LSN: 10})
	tracker.Mark(Mark{LSN: 20})
	third := tracker.Begin()
	if first != second {
		t.Errorf("events between two marks: got segments %d and %d, want one", first, second)
	}
	if third == second {
		t.Errorf("an event behind a mark: got segment %d again", third)
	}
}

func TestTrackerAckBreaksItsContract(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
		last  step
	}{
		{"nothing begun", nil, ack(0, 1)},
		{"an event twice, without a mark", []step{begin(1), ack(0, 1)}, ack(0, 1)},
		{"an event twice, confirmed", []step{begin(1), mark(10), ack(0, 1)}, ack(0, 1)},
		{"an event twice, confirmed long ago", []step{begin(1), mark(10), ack(0, 1), begin(1), mark(20), ack(1, 1)}, ack(0, 1)},
		{"an event twice, behind a hole", []step{begin(1), mark(10), begin(1), mark(20), ack(1, 1)}, ack(1, 1)},
		{
			"an event twice, behind a hole, long ago",
			[]step{begin(1), mark(10), begin(1), mark(20), begin(1), mark(30), begin(1), mark(40), ack(1, 1), ack(2, 1), ack(3, 1)},
			ack(1, 1),
		},
		{"more than begun", []step{begin(2), mark(10)}, ack(0, 3)},
		{"more than pending", []step{begin(2), mark(10), ack(0, 1)}, ack(0, 2)},
		{"a segment to come", []step{begin(1), mark(10)}, ack(1, 1)},
		{"a segment far ahead", []step{begin(1)}, ack(1<<63, 1)},
		{"no event", []step{begin(1)}, ack(0, 0)},
		{"less than no event", []step{begin(1)}, ack(0, -1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tracker := NewTracker()
			for _, s := range tt.steps {
				s(tracker)
			}
			confirmed, pending := tracker.Confirmed(), tracker.Pending()
			defer func() {
				text, _ := recover().(string)
				if !strings.HasPrefix(text, "checkpoint: acknowledged ") {
					t.Errorf("got panic %q, want one of this package", text)
				}
				if got := tracker.Confirmed(); got != confirmed || tracker.Pending() != pending {
					t.Errorf("got %+v with %d pending, want %+v with %d", got, tracker.Pending(), confirmed, pending)
				}
			}()
			tt.last(tracker)
		})
	}
}

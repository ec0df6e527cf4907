package checkpoint

import (
	"testing"

	"github.com/jackc/pglogrepl"
)

// What a tracker holds grows with the unfinished transactions, whatever has
// passed through it.
func TestTrackerMemory(t *testing.T) {
	const million, many = 1_000_000, 100_000
	transaction := func(tracker *Tracker, lsn int) {
		s := tracker.Begin()
		tracker.Mark(Mark{LSN: pglogrepl.LSN(lsn)})
		tracker.Ack(s, 1)
	}
	for _, tt := range []struct {
		name       string
		run        func(tracker *Tracker)
		unfinished int
		confirmed  pglogrepl.LSN
	}{
		{
			name: "keepalives",
			run: func(tracker *Tracker) {
				for i := range million {
					tracker.Mark(Mark{LSN: pglogrepl.LSN(i)})
				}
			},
			confirmed: million - 1,
		},
		{
			name: "keepalives behind an event",
			run: func(tracker *Tracker) {
				tracker.Begin()
				for i := range many {
					tracker.Mark(Mark{LSN: pglogrepl.LSN(i)})
				}
			},
			unfinished: 1,
		},
		{
			name: "transactions one after the other",
			run: func(tracker *Tracker) {
				for i := range million {
					transaction(tracker, i)
				}
			},
			confirmed: million - 1,
		},
		{
			name: "transactions behind an event",
			run: func(tracker *Tracker) {
				tracker.Begin()
				for i := range million {
					transaction(tracker, i)
				}
			},
			unfinished: 1,
		},
		{
			name: "transactions a hundred of which are out",
			run: func(tracker *Tracker) {
				for i := range many {
					if s := tracker.Begin(); s >= 100 {
						tracker.Ack(s-100, 1)
					}
					tracker.Mark(Mark{LSN: pglogrepl.LSN(i)})
				}
			},
			unfinished: 100,
			confirmed:  many - 101,
		},
		{
			name: "transactions of which every thousandth stands still",
			run: func(tracker *Tracker) {
				for i := range many {
					if i%1000 == 0 {
						tracker.Begin()
						tracker.Mark(Mark{LSN: pglogrepl.LSN(i)})
					}
					transaction(tracker, i)
				}
			},
			unfinished: 100,
		},
		{
			name: "one transaction of many events",
			run: func(tracker *Tracker) {
				for range many {
					tracker.Ack(tracker.Begin(), 1)
				}
				tracker.Begin()
			},
			unfinished: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tracker := NewTracker()
			tt.run(tracker)
			if got := tracker.Confirmed().LSN; got != tt.confirmed {
				t.Errorf("confirmed: got %d, want %d", got, tt.confirmed)
			}
			// Half of the array may be finished, and it grows by doubling.
			if got, most := cap(tracker.segments), 4*(tt.unfinished+2); got > most {
				t.Errorf("got %d segments for %d unfinished transactions, want at most %d", got, tt.unfinished, most)
			}
		})
	}
}

func TestTrackerDoesNotAllocate(t *testing.T) {
	tracker := NewTracker()
	tracker.Begin()
	tracker.Mark(Mark{LSN: 1})
	lsn := pglogrepl.LSN(1)
	transaction := func() {
		lsn++
		s := tracker.Begin()
		tracker.Mark(Mark{LSN: lsn})
		tracker.Ack(s, 1)
	}
	for range 10 {
		transaction()
	}
	if got := testing.AllocsPerRun(1000, transaction); got != 0 {
		t.Errorf("got %v allocations per transaction, want 0", got)
	}
}

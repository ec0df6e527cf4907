package main

import (
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

func TestLagInTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { then := now.Add(-d); return &then }
	seconds := func(s float64) *float64 { return &s }
	record := func(age time.Duration) *slotRecord { return &slotRecord{LastEvent: ago(age)} }
	for _, tc := range []struct {
		name   string
		slot   replication.Slot
		record *slotRecord
		want   string
	}{
		{"nothing behind", replication.Slot{}, record(time.Hour), "0s"},
		{"caught up and measured", replication.Slot{ActivePID: 7, LagBytes: 9, Client: &replication.Client{CaughtUp: true, FlushLag: seconds(0.0254)}}, record(time.Hour), "25ms"},
		{"caught up and idle", replication.Slot{ActivePID: 7, LagBytes: 9, Client: &replication.Client{CaughtUp: true}}, nil, "0s"},
		// The measure is of the last confirmation, however long ago that was.
		{"standing still", replication.Slot{ActivePID: 7, LagBytes: 9, Client: &replication.Client{FlushLag: seconds(0.0254)}}, record(4*time.Minute + time.Second/2), "<4m0s"},
		{"standing still, no record", replication.Slot{ActivePID: 7, LagBytes: 9, Client: &replication.Client{FlushLag: seconds(0.0254)}}, nil, "-"},
		{"inactive", replication.Slot{LagBytes: 9, InactiveSince: ago(51 * time.Hour)}, record(52 * time.Hour), ">2d3h"},
		{"inactive before PostgreSQL 17", replication.Slot{LagBytes: 9}, record(52 * time.Hour), "<2d4h"},
		{"no event yet", replication.Slot{LagBytes: 9}, &slotRecord{}, "-"},
		{"end of the WAL unknown", replication.Slot{Unmeasured: true}, nil, "-"},
		{"end of the WAL unknown, inactive", replication.Slot{Unmeasured: true, InactiveSince: ago(90 * time.Minute)}, nil, ">1h30m"},
		{"the clock was set back", replication.Slot{LagBytes: 9, InactiveSince: ago(-time.Second)}, nil, ">0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.slot.Confirmed, tc.slot.ServerTime = 1, now
			if got := lagOf(tc.slot, tc.record).String(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if got := lagOf(replication.Slot{Type: "physical", LagBytes: 9}, nil).String(); got != "-" {
		t.Errorf("got %s for a slot that nothing is confirmed of, want -", got)
	}
}

func TestAmountOfSkippedRows(t *testing.T) {
	tables := []replication.SkippedTable{{Table: "a", Rows: 3}, {Table: "b", Rows: 4}}
	for want, skipped := range map[string]replication.Skipped{
		"no row":                              {Complete: true},
		"7 rows (3 of table a, 4 of table b)": {Complete: true, Tables: tables},
		"7 rows (3 of table a, 4 of table b) and 1 message": {Complete: true, Tables: tables, Messages: 1},
		"2 messages":                                             {Complete: true, Messages: 2},
		"more than 2 messages; no time":                          {Reason: "no time", Messages: 2},
		"rows that were not counted: no time":                    {Reason: "no time"},
		"more than 7 rows (3 of table a, 4 of table b); no time": {Reason: "no time", Tables: tables},
	} {
		if got := amount(skipped); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

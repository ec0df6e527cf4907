package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// articleNames are the metrics whose names the literature on the pattern fixes,
// although promlint would have others.
var articleNames = []string{"outbox_pending_count", "outbox_failed_count", "saga_compensation_total"}

func TestMetricsHaveCleanNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	publisher.NewMetrics(registry)
	registerProcessMetrics(registry, newTestMonitor())
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !slices.Contains(articleNames, p.Metric) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestMetricsOfTheProcess(t *testing.T) {
	m := newTestMonitor()
	m.health.sessionEnded(endedStopped)
	registry := prometheus.NewRegistry()
	registerProcessMetrics(registry, m)
	const want = `
# HELP outbox_cdc_last_publish_timestamp_seconds When the brokers acknowledged an event last.
# TYPE outbox_cdc_last_publish_timestamp_seconds gauge
outbox_cdc_last_publish_timestamp_seconds 1.7e+09
# HELP outbox_cdc_received_lsn Position in the write-ahead log up to which the session has read.
# TYPE outbox_cdc_received_lsn gauge
outbox_cdc_received_lsn 8.589934592e+09
# HELP outbox_cdc_sessions_ended_total Replication sessions that have ended, attempts at one included, by reason.
# TYPE outbox_cdc_sessions_ended_total counter
outbox_cdc_sessions_ended_total{reason="busy"} 0
outbox_cdc_sessions_ended_total{reason="denied"} 0
outbox_cdc_sessions_ended_total{reason="error"} 0
outbox_cdc_sessions_ended_total{reason="gap"} 0
outbox_cdc_sessions_ended_total{reason="halted"} 0
outbox_cdc_sessions_ended_total{reason="kafka"} 0
outbox_cdc_sessions_ended_total{reason="postgres"} 0
outbox_cdc_sessions_ended_total{reason="setup"} 0
outbox_cdc_sessions_ended_total{reason="start_over"} 0
outbox_cdc_sessions_ended_total{reason="stopped"} 1
# HELP outbox_cdc_slot_held_back 1 while the server sends nothing because of synchronized_standby_slots.
# TYPE outbox_cdc_slot_held_back gauge
outbox_cdc_slot_held_back 0
# HELP outbox_cdc_slot_lag_bytes Write-ahead log between what the slot is confirmed up to and the end.
# TYPE outbox_cdc_slot_lag_bytes gauge
outbox_cdc_slot_lag_bytes 4096
# HELP outbox_cdc_slot_retained_bytes Write-ahead log that the server keeps for the slot.
# TYPE outbox_cdc_slot_retained_bytes gauge
outbox_cdc_slot_retained_bytes 8192
# HELP outbox_cdc_slot_safe_wal_bytes Write-ahead log that may still be written before the slot is in danger; only with max_slot_wal_keep_size.
# TYPE outbox_cdc_slot_safe_wal_bytes gauge
outbox_cdc_slot_safe_wal_bytes 1.048576e+06
# HELP outbox_cdc_slot_wal_status 1 for the wal_status that the slot is in, 0 for the others.
# TYPE outbox_cdc_slot_wal_status gauge
outbox_cdc_slot_wal_status{status="extended"} 1
outbox_cdc_slot_wal_status{status="lost"} 0
outbox_cdc_slot_wal_status{status="reserved"} 0
outbox_cdc_slot_wal_status{status="unreserved"} 0
# HELP outbox_cdc_state 1 for the state that the process is in, 0 for the others.
# TYPE outbox_cdc_state gauge
outbox_cdc_state{state="active"} 1
outbox_cdc_state{state="standby"} 0
outbox_cdc_state{state="starting"} 0
outbox_cdc_state{state="stopping"} 0
outbox_cdc_state{state="waiting"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestMetricsThatAreNotKnown leaves out what is not known yet, and what was seen
// long ago: a lag of 0, or of yesterday, would be a lie.
func TestMetricsThatAreNotKnown(t *testing.T) {
	m := newTestMonitor()
	m.health = newHealth()
	m.health.sawSlot(replication.Slot{LagBytes: 1})
	m.health.change(func(now *situation) { now.slotSeen = now.slotSeen.Add(-time.Hour) })
	m.progress = func() publisher.Progress { return publisher.Progress{} }
	registry := prometheus.NewRegistry()
	registerProcessMetrics(registry, m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	if want := []string{"outbox_cdc_sessions_ended_total", "outbox_cdc_slot_held_back", "outbox_cdc_state"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry returns a registry with what is known of any process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "outbox_cdc_build_info", Help: "1, with the version of the binary.", ConstLabels: prometheus.Labels{"version": buildVersion()},
	})
	build.Set(1)
	registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// processMetrics are what a monitor knows, as metrics. They are made when they
// are asked for, so they cannot differ from what /status says.
type processMetrics struct {
	monitor *monitor

	state, ended, received                   *prometheus.Desc
	lag, retained, safe, walStatus, heldBack *prometheus.Desc
	lastPublish                              *prometheus.Desc
}

// registerProcessMetrics registers the metrics of the process and its slot.
func registerProcessMetrics(r prometheus.Registerer, m *monitor) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("outbox_cdc_"+name, help, labels, nil)
	}
	r.MustRegister(&processMetrics{
		monitor:     m,
		state:       desc("state", "1 for the state that the process is in, 0 for the others.", "state"),
		ended:       desc("sessions_ended_total", "Replication sessions that have ended, attempts at one included, by reason.", "reason"),
		received:    desc("received_lsn", "Position in the write-ahead log up to which the session has read."),
		lag:         desc("slot_lag_bytes", "Write-ahead log between what the slot is confirmed up to and the end."),
		retained:    desc("slot_retained_bytes", "Write-ahead log that the server keeps for the slot."),
		safe:        desc("slot_safe_wal_bytes", "Write-ahead log that may still be written before the slot is in danger; only with max_slot_wal_keep_size."),
		walStatus:   desc("slot_wal_status", "1 for the wal_status that the slot is in, 0 for the others.", "status"),
		heldBack:    desc("slot_held_back", "1 while the server sends nothing because of synchronized_standby_slots."),
		lastPublish: desc("last_publish_timestamp_seconds", "When the brokers acknowledged an event last."),
	})
}

// slotFresh is for how long what was seen of the slot is told: a lag of yesterday
// would pass for that of today.
const slotFresh = time.Minute

// walStatuses are the values of pg_replication_slots.wal_status.
func walStatuses() []string { return []string{"reserved", "extended", "unreserved", "lost"} }

// Describe implements prometheus.Collector.
func (p *processMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.state, p.ended, p.received, p.lag, p.retained, p.safe, p.walStatus, p.heldBack, p.lastPublish} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p *processMetrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	now := p.monitor.health.situation()
	for _, s := range states() {
		gauge(p.state, oneIf(s == now.state), string(s))
	}
	for reason, n := range now.ended {
		out <- prometheus.MustNewConstMetric(p.ended, prometheus.CounterValue, float64(n), reason)
	}
	gauge(p.heldBack, oneIf(now.heldBack != ""))
	if now.session.id != "" {
		gauge(p.received, float64(now.session.received()))
	}
	if time.Since(now.slotSeen) < slotFresh {
		gauge(p.lag, float64(now.slot.LagBytes))
		gauge(p.retained, float64(now.slot.RetainedBytes))
		for _, s := range walStatuses() {
			gauge(p.walStatus, oneIf(s == now.slot.WALStatus), s)
		}
		if now.slot.SafeWALBytes != nil {
			gauge(p.safe, float64(*now.slot.SafeWALBytes))
		}
	}
	if at := p.monitor.progress().LastPublished; !at.IsZero() {
		gauge(p.lastPublish, float64(at.UnixMicro())/1e6)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

package publisher

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
)

// Metrics are what a Publisher counts. They are for people and alerts; nothing
// in the program reads them.
type Metrics struct {
	pending      prometheus.Gauge
	inFlight     prometheus.Gauge
	held         prometheus.Gauge
	received     prometheus.Counter
	published    prometheus.Counter
	recognised   prometheus.Counter
	filtered     prometheus.Counter
	failed       prometheus.Counter
	deadLetters  *prometheus.CounterVec
	headersLess  *prometheus.CounterVec
	errors       *prometheus.CounterVec
	acquisitions *prometheus.CounterVec
	latency      prometheus.Histogram
	commitToAck  prometheus.Histogram
	confirmed    prometheus.Gauge
}

// NewMetrics registers the metrics of a publisher. The names without the prefix
// outbox_cdc_ are those that the literature on the pattern gives them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_pending_count", Help: "Events received from the slot and not yet acknowledged or set aside.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outbox_failed_count", Help: "Events set aside as dead letters.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_cdc_in_flight_bytes", Help: "Memory held by events that are not yet acknowledged.",
		}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_cdc_in_flight_events", Help: "Events that are queued or under way.",
		}),
		received: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outbox_cdc_events_decoded_total", Help: "Events received from the slot, those that come again after a restart included.",
		}),
		published: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outbox_cdc_events_published_total", Help: "Events that the brokers acknowledged.",
		}),
		recognised: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outbox_cdc_events_recognised_total", Help: "Events that were found in their partition and not sent again.",
		}),
		filtered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outbox_cdc_events_filtered_total", Help: "Events of a type that is not to be published.",
		}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outbox_cdc_events_dead_lettered_total", Help: "Events set aside as dead letters, by reason.",
		}, []string{"reason"}),
		headersLess: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outbox_cdc_headers_left_out_total", Help: "Headers of the application that were left out of records, each time they are sent, by reason.",
		}, []string{"reason"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outbox_cdc_publish_errors_total", Help: "Batches that were not acknowledged, by class of the error.",
		}, []string{"class"}),
		acquisitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outbox_cdc_partitions_acquired_total", Help: "Acquisitions of a partition, by how exact they are.",
		}, []string{"mode"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "outbox_publish_latency_seconds", Help: "Time from created_at, or the commit where that is not a timestamptz, to the acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		commitToAck: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "outbox_cdc_commit_to_ack_seconds", Help: "Time from the commit of an event, by the database's clock, to its acknowledgement, by ours.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		confirmed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_cdc_confirmed_lsn", Help: "Position in the write-ahead log up to which everything is acknowledged.",
		}),
	}
	r.MustRegister(m.pending, m.failed, m.inFlight, m.held, m.received, m.published, m.recognised, m.filtered, m.headersLess, m.deadLetters, m.errors, m.acquisitions,
		m.latency, m.commitToAck, m.confirmed)
	return m
}

// acknowledged counts the records of a batch.
func (m *Metrics) acknowledged(records []record, at time.Time) {
	now := at.UnixMicro()
	for i := range records {
		r := &records[i]
		m.commitToAck.Observe(float64(now-r.position.CommitTime) / 1e6)
		m.latency.Observe(float64(now-createdAt(r)) / 1e6)
	}
	m.published.Add(float64(len(records)))
}

// leftOut counts headers that were left out, and forgets them.
func (m *Metrics) leftOut(l *leftOut) {
	if *l == (leftOut{}) {
		return
	}
	m.headersLess.WithLabelValues("reserved").Add(float64(l.reserved))
	m.headersLess.WithLabelValues("invalid_name").Add(float64(l.unnamed))
	m.headersLess.WithLabelValues("invalid_trace").Add(float64(l.untraced))
	*l = leftOut{}
}

// setAside counts a dead letter.
func (m *Metrics) setAside(reason Reason) {
	m.failed.Inc()
	m.deadLetters.WithLabelValues(string(reason)).Inc()
}

// standing shows what a session holds and how far it is.
func (m *Metrics) standing(s *session, confirmed checkpoint.Mark) {
	m.pending.Set(float64(s.tracker.Pending()))
	m.inFlight.Set(float64(s.held))
	m.held.Set(float64(s.records))
	m.confirmed.Set(float64(confirmed.LSN))
}

// nothing shows that no session holds anything.
func (m *Metrics) nothing() {
	m.pending.Set(0)
	m.inFlight.Set(0)
	m.held.Set(0)
}

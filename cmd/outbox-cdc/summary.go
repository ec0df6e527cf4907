package main

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/outbox-cdc/outbox-cdc/publisher"
)

// summaryInterval is how often the log says how much was published.
const summaryInterval = time.Minute

// summary writes one line into the log at the end of each interval in which
// something was published, or waits to be.
type summary struct {
	log      *slog.Logger
	interval time.Duration
	health   *health
	progress func() publisher.Progress
}

// run writes the lines until ctx ends.
func (s *summary) run(ctx context.Context) {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	before, since := s.progress(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, at := s.progress(), time.Now()
		s.say(before, now, at.Sub(since), at)
		before, since = now, at
	}
}

// say writes the line for what happened between two looks.
func (s *summary) say(before, now publisher.Progress, took time.Duration, at time.Time) {
	events := now.Published - before.Published
	recognised, deadLettered := now.Recognised-before.Recognised, now.DeadLettered-before.DeadLettered
	if events+recognised+deadLettered == 0 && now.Pending == 0 {
		return
	}
	lag := time.Duration(0)
	if now.Pending > 0 && !now.LastCommit.IsZero() {
		lag = at.Sub(now.LastCommit).Round(time.Millisecond)
	}
	s.log.Info("summary", "events", events, "per_second", perSecond(events, took), "recognised", recognised, "dead_lettered", deadLettered,
		"lag_bytes", s.health.situation().slot.LagBytes, "lag", lag, "in_flight", now.Pending, "in_flight_bytes", now.InFlightBytes)
}

// perSecond is a rate with one decimal place.
func perSecond(n uint64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return math.Round(10*float64(n)/took.Seconds()) / 10
}

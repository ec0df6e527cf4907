package publisher

import (
	"context"
	"sync/atomic"
	"time"
)

// Progress is how far a publisher is.
type Progress struct {
	// Pending counts the events received and neither acknowledged nor set
	// aside, InFlightBytes the memory that they hold.
	Pending       int64 `json:"pending"`
	InFlightBytes int64 `json:"in_flight_bytes"`
	// Published, Recognised and DeadLettered count events since the publisher
	// was made.
	Published    uint64 `json:"published"`
	Recognised   uint64 `json:"recognised"`
	DeadLettered uint64 `json:"dead_lettered"`
	// LastPublished is when the brokers acknowledged an event last, LastCommit
	// the commit time of the newest event that they have acknowledged. Either
	// is zero before the first.
	LastPublished time.Time `json:"last_published,omitzero"`
	LastCommit    time.Time `json:"last_commit,omitzero"`
}

// progress is a Progress under construction. The loop writes it, by batch and
// never by event; any goroutine may read it. Times are in microseconds since
// 1970, 0 for none.
type progress struct {
	pending, held                       atomic.Int64
	published, recognised, deadLettered atomic.Uint64
	lastPublished, lastCommit           atomic.Int64
}

// Progress returns how far the publisher is. Any goroutine may call it.
func (p *Publisher) Progress() Progress {
	return Progress{
		Pending:       p.progress.pending.Load(),
		InFlightBytes: p.progress.held.Load(),
		Published:     p.progress.published.Load(),
		Recognised:    p.progress.recognised.Load(),
		DeadLettered:  p.progress.deadLettered.Load(),
		LastPublished: timeOf(p.progress.lastPublished.Load()),
		LastCommit:    timeOf(p.progress.lastCommit.Load()),
	}
}

func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// acknowledged counts a batch that was acknowledged now, its last event
// committed at a time.
func (p *progress) acknowledged(events int, now time.Time, commit int64) {
	p.published.Add(uint64(events))
	p.lastPublished.Store(now.UnixMicro())
	p.committed(commit)
}

// committed notes the commit time of an event that the brokers have. Only the
// loop calls it.
func (p *progress) committed(at int64) {
	if at > p.lastCommit.Load() {
		p.lastCommit.Store(at)
	}
}

// standing notes what is held.
func (p *progress) standing(pending int, held int64) {
	p.pending.Store(int64(pending))
	p.held.Store(held)
}

// Alive asks the loop of Run to answer, and returns the cause of ctx if it has
// not. It returns nil at once if no Run is under way. Any goroutine may call it.
func (p *Publisher) Alive(ctx context.Context) error {
	s := p.running.Load()
	if s == nil {
		return nil
	}
	answered := make(chan struct{})
	select {
	case s.reports <- func() { close(answered) }:
	case <-s.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-answered:
	case <-s.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

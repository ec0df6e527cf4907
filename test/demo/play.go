//go:build linux || darwin

package main

import (
	"context"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

const (
	// showTime is about how long the changes of a file take.
	showTime = 18 * time.Second
	// slowest is the longest time between two of them.
	slowest = 280 * time.Millisecond
	// patience is how long the last records may take after the last commit.
	patience = 20 * time.Second
)

// play is the show between the first order and the last record. It belongs to
// one goroutine.
type play struct {
	stage  *stage
	out    *screen
	shop   *shop
	ledger *ledger

	// The relay is killed with the first record after so many changes, and
	// started again after so many.
	killAfter, startAfter int
	done                  int // changes

	killed, started time.Time // when that happened; zero before
	back            time.Time // arrival of the first record since
	away            int       // events committed while no relay ran
}

func newPlay(s *stage, out *screen, changes []change, keep bool) *play {
	every := min(slowest, max(showTime/time.Duration(len(changes)), time.Microsecond))
	return &play{
		stage: s, out: out, ledger: newLedger(),
		shop:      &shop{db: s.db, changes: changes, every: every, again: keep},
		killAfter: (len(changes)*2 + 4) / 5, startAfter: (len(changes)*3 + 4) / 5,
	}
}

// run plays until everything committed has arrived, or patience ends.
func (p *play) run(ctx context.Context) error {
	following, leave := context.WithCancel(context.Background())
	defer leave()
	records, err := p.stage.kafka.Follow(following, topic)
	if err != nil {
		return err
	}
	p.out.header()
	open, closeShop := context.WithCancel(ctx)
	outcomes := make(chan outcome)
	go p.shop.run(open, outcomes)
	err = p.loop(outcomes, records)
	closeShop()
	for range outcomes { // the last one, if the loop has ended early
	}
	if err == nil {
		err = p.recover()
	}
	return err
}

func (p *play) loop(outcomes <-chan outcome, records <-chan harness.Record) error {
	var enough <-chan time.Time
	for {
		var err error
		select {
		case o, open := <-outcomes:
			if open {
				err = p.changed(o)
				break
			}
			outcomes, enough = nil, time.After(patience)
			err = p.recover()
		case r := <-records:
			err = p.arrived(r)
		case <-p.stage.relayDone():
			err = p.stage.relayFailure()
		case <-enough:
			return nil // the summary will tell
		}
		if err != nil || outcomes == nil && p.ledger.complete() {
			return err
		}
	}
}

// changed notes what the service has done, and starts the relay again if it is
// time to.
func (p *play) changed(o outcome) error {
	if o.err != nil {
		return o.err
	}
	p.ledger.write(o)
	p.done++
	down := p.stage.relay == nil
	switch {
	case o.rollback:
		p.out.aside("rolled back", o.change)
	case down:
		p.away++
		p.out.aside("committed", o.change)
	}
	if down && p.done >= p.startAfter {
		return p.recover()
	}
	return nil
}

// arrived shows a record, and kills the relay if it is time to: what it has
// just published is hardly confirmed yet.
func (p *play) arrived(r harness.Record) error {
	now := time.Now()
	if p.back.IsZero() && !p.started.IsZero() {
		p.back = now
	}
	committed := commitTime(r)
	late := !p.killed.IsZero() && committed.After(p.killed) && (p.back.IsZero() || committed.Before(p.back))
	p.ledger.arrive(string(r.Key), now.Sub(committed), late)
	p.out.record(r, now.Sub(committed), late)
	if !p.killed.IsZero() || p.done < p.killAfter {
		return nil
	}
	p.killed = time.Now()
	p.out.killed(p.stage.relay.PID())
	return p.stage.killRelay()
}

// recover starts the relay again if it was killed.
func (p *play) recover() error {
	if p.stage.relay != nil {
		return nil
	}
	p.started = time.Now()
	if err := p.stage.startRelay(); err != nil {
		return err
	}
	p.out.restarted(p.stage.relay.PID(), p.away)
	return nil
}

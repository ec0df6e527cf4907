package publisher

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// proof is the newest proof that we hold the slot. Any goroutine may use it.
type proof struct {
	owner Owner
	// sent is when the question was sent that was answered with yes.
	sent atomic.Pointer[time.Time]
	// wanted asks for a new one at once.
	wanted chan struct{}
}

// newProof begins with the proof whose question was sent at sent, if that is not
// zero.
func newProof(owner Owner, sent time.Time) *proof {
	p := &proof{owner: owner, wanted: make(chan struct{}, 1)}
	if !sent.IsZero() {
		p.sent.Store(&sent)
	}
	return p
}

// fresh reports whether the proof still counts.
func (p *proof) fresh() bool {
	sent := p.sent.Load()
	return sent != nil && age(*sent, time.Now()) <= p.owner.Limit()
}

// age returns how old a proof is at now: by the monotonic clock or by the wall
// clock, whichever says more. The monotonic clock stands still while a machine is
// suspended.
func age(sent, now time.Time) time.Duration {
	return max(now.Sub(sent), now.Round(0).Sub(sent.Round(0)))
}

// want has a new proof fetched without waiting for it.
func (p *proof) want() {
	select {
	case p.wanted <- struct{}{}:
	default:
	}
}

// renew asks the server.
func (p *proof) renew(ctx context.Context) error {
	sent, err := p.owner.Prove(ctx)
	if err != nil {
		return err
	}
	p.sent.Store(&sent)
	return nil
}

// keepProof renews the proof well before it is too old, so that sends seldom
// wait for one, and whenever it is wanted. It ends with the session.
func (s *session) keepProof() {
	ticker := time.NewTicker(s.proof.owner.Limit() / 3)
	defer ticker.Stop()
	for first := true; ; first = false {
		if !first || !s.proof.fresh() {
			if err := s.proof.renew(s.ctx); err != nil {
				s.report(func() { s.fail(fmt.Errorf("prove that the slot is held: %w", err)) })
				return
			}
			// The loop may wait for this proof; a report wakes it.
			s.report(func() {})
		}
		select {
		case <-ticker.C:
		case <-s.proof.wanted:
		case <-s.ctx.Done():
			return
		}
	}
}

//go:build linux || darwin

package main

import (
	"context"
	"time"
)

// idle measures what outbox-cdc needs for nothing, once it has published some
// rows to every partition.
func (p *place) idle(ctx context.Context) error {
	return p.rounds(ctx, func(who, slot string) error {
		r, err := p.start(ctx, slot)
		if err != nil {
			return err
		}
		defer r.Close()
		p.load = load{rows: fewestRows, perTransaction: 1, rowBytes: 300}
		end, err := p.commit(ctx)
		if err == nil {
			err = p.awaitConfirmed(ctx, slot, end, r.running)
		}
		if err != nil {
			return err
		}
		s := sample{}
		if err := r.doNothing(ctx, p.time, s); err != nil {
			return err
		}
		p.measured(who, s)
		return r.stop(ctx)
	})
}

// doNothing measures the relay over a time.
func (r *relay) doNothing(ctx context.Context, d time.Duration, s sample) error {
	before, err := r.CPU()
	if err != nil {
		return err
	}
	begun := time.Now()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.Done():
		return r.running()
	case <-time.After(d):
	}
	after, err := r.CPU()
	if err != nil {
		return err
	}
	now, err := r.RSS()
	if err != nil {
		return err
	}
	s[cpuShare.name] = (after - before).Seconds() / time.Since(begun).Seconds() * 100
	s[memory.name] = float64(now) / (1 << 20)
	return r.memory(s)
}

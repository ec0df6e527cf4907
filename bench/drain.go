//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// drain commits the rows of the case, and then has each contender drain them.
func (p *place) drain(ctx context.Context) error {
	p.b.say("  committing %s rows", number(float64(p.load.rows), 0))
	end, err := p.commit(ctx)
	if err != nil {
		return err
	}
	return p.rounds(ctx, func(who, slot string) error {
		ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("the run takes longer than %s", runLimit))
		defer cancel()
		var s sample
		var err error
		if who == ours {
			s, err = p.drainRelay(ctx, slot, end)
		} else {
			s, err = p.drainReader(ctx, who, slot)
		}
		if err != nil {
			return err
		}
		p.measured(who, s)
		return p.dropSlot(ctx, slot)
	})
}

// drainReader measures one of the readers that throw away what they read.
func (p *place) drainReader(ctx context.Context, who, slot string) (sample, error) {
	c, err := startChild(orders{Kind: who, DSN: p.pg.DSN(p.database), Slot: slot, Rows: int64(p.load.rows)})
	if err != nil {
		return nil, err
	}
	defer c.close()
	var r reading
	if err := c.outcome(ctx, &r); err != nil {
		return nil, err
	}
	first, ended := time.Unix(0, r.FirstAt), time.Unix(0, r.EndAt)
	s := p.rates(r.FirstRows, first, ended)
	s[firstRecord.name] = milliseconds(first.Sub(c.begun))
	s[drained.name] = ended.Sub(c.begun).Seconds()
	return s, p.usage(c, s)
}

// drainRelay measures outbox-cdc. How far it is, the broker is asked; there is
// no consumer.
func (p *place) drainRelay(ctx context.Context, slot string, end pglogrepl.LSN) (sample, error) {
	r, err := p.start(ctx, slot)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	before, err := p.kafka.Broker(0).Process().CPU()
	if err != nil {
		return nil, err
	}
	w, err := p.watch(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%d of %d rows are published: %w", w.last.records, p.load.rows, err)
	}
	s := p.rates(w.first.records, w.first.at, w.last.at)
	s[firstRecord.name] = milliseconds(w.first.at.Sub(r.begun))
	s[allWriting.name] = milliseconds(w.all.Sub(r.begun))
	s[acquiring.name] = milliseconds(w.acquired.Sub(w.acquiring))
	s[drained.name] = w.last.at.Sub(r.begun).Seconds()
	if err := p.awaitConfirmed(ctx, slot, end, r.running); err != nil {
		return nil, err
	}
	s[confirmed.name] = time.Since(r.begun).Seconds()
	if err := p.usage(r, s); err != nil {
		return nil, err
	}
	after, err := p.kafka.Broker(0).Process().CPU()
	if err != nil {
		return nil, err
	}
	if p.load.rowBytes < largeBytes {
		s[brokerCPU.name] = (after - before).Seconds() / float64(p.load.rows) * 1e6
	}
	if err := r.stop(ctx); err != nil {
		return nil, err
	}
	return s, p.verify(ctx)
}

// verify returns an error if there are not as many records as rows. They are
// read only if the end offsets leave a doubt: a partition that was acquired
// again has another marker.
func (p *place) verify(ctx context.Context) error {
	var now sighting
	err := await(ctx, "the end offsets are known", loosely, func() (known bool, err error) {
		if now, err = p.watcher.look(ctx); kerr.IsRetriable(err) {
			return false, nil
		}
		return true, err
	})
	if err != nil || now.records == int64(p.load.rows) {
		return err
	}
	records := 0
	if err := p.kafka.ReadEach(ctx, func(harness.Record) { records++ }, p.topics...); err != nil {
		return err
	}
	if records != p.load.rows {
		return fmt.Errorf("there are %d records of %d rows", records, p.load.rows)
	}
	p.b.say("  partitions have %+d markers beside one each", now.records-int64(records))
	return nil
}

// course is what was seen of a drain.
type course struct {
	first, last         sighting  // with records; when the last of them were new
	acquiring, acquired time.Time // the first partition was, the last
	all                 time.Time // every partition had records
}

// How often the broker is asked: until all partitions have records, and then.
const (
	closely = 2 * time.Millisecond
	loosely = 10 * time.Millisecond
)

// watch looks at the topics until all rows are there.
func (p *place) watch(ctx context.Context, r *relay) (course, error) {
	var c course
	parts := len(p.topics) * p.partitions
	pace := closely
	for {
		now, err := p.watcher.look(ctx)
		switch {
		case err == nil:
			c.see(now, parts)
		case !kerr.IsRetriable(err): // a broker on a busy machine may lose its turn for a moment
			return c, err
		}
		if c.complete(int64(p.load.rows), now.at) {
			return c, nil
		}
		if !c.all.IsZero() {
			pace = loosely
		}
		if err := r.running(); err != nil {
			return c, err
		}
		select {
		case <-ctx.Done():
			return c, context.Cause(ctx)
		case <-time.After(pace):
		}
	}
}

// see takes a sighting of so many partitions into account.
func (c *course) see(now sighting, partitions int) {
	if now.records != c.last.records || now.acquired != c.last.acquired {
		c.last = now
	}
	if c.first.records == 0 {
		c.first = now
	}
	if now.acquired > 0 && c.acquiring.IsZero() {
		c.acquiring = now.at
	}
	if now.acquired == partitions && c.acquired.IsZero() {
		c.acquired = now.at
	}
	if now.writing == partitions && c.all.IsZero() {
		c.all = now.at
	}
}

// settled is for how long nothing has to change until a drain is over in which
// a partition has no marker.
const settled = 2 * time.Second

// complete reports whether all rows are there. Whether it is so in the end,
// verify finds out.
func (c *course) complete(rows int64, now time.Time) bool {
	if c.last.records >= rows {
		return true
	}
	return c.last.records+int64(c.last.acquired) >= rows && now.Sub(c.last.at) > settled
}

// rates are those of a drain between two times, at the first of which some rows
// were there already.
func (p *place) rates(before int64, first, ended time.Time) sample {
	took := ended.Sub(first).Seconds()
	rows := float64(int64(p.load.rows) - before)
	if rows <= 0 || took <= 0 {
		return sample{} // all of them came at once
	}
	rate := rows / took
	return sample{rowRate.name: rate, byteRate.name: rate * float64(p.load.rowBytes) / 1e6}
}

// process is what the operating system keeps account of.
type process interface {
	CPU() (time.Duration, error)
	PeakRSS() (int64, error)
}

// usage notes what a contender has used for the rows of the case.
func (p *place) usage(of process, s sample) error {
	cpu, err := of.CPU()
	if err != nil {
		return err
	}
	peak, err := of.PeakRSS()
	if rows, bytes := float64(p.load.rows), float64(p.load.rowBytes); bytes < largeBytes {
		s[cpuPerMillion.name] = cpu.Seconds() / rows * 1e6
	} else {
		s[cpuPerGB.name] = cpu.Seconds() / (rows * bytes) * 1e9
	}
	s[peakMemory.name] = float64(peak) / (1 << 20)
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

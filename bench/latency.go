//go:build linux || darwin

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// warmTime is for how long rows are committed before those that count, at least:
// each partition is acquired, and each connection there.
const warmTime = 2 * time.Second

// latency measures how long rows take from being inserted, in a transaction that
// commits at once, to a consumer.
func (p *place) latency(ctx context.Context) error {
	return p.rounds(ctx, func(who, slot string) error {
		ctx, cancel := context.WithTimeoutCause(ctx, 4*(p.time+warmTime)+time.Minute, errors.New("the run takes too long"))
		defer cancel()
		s, err := p.latencyRelay(ctx, slot)
		if err != nil {
			return err
		}
		p.measured(who, s)
		return p.dropSlot(ctx, slot)
	})
}

func (p *place) latencyRelay(ctx context.Context, slot string) (sample, error) {
	r, err := p.start(ctx, slot)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	warm, rows := p.whole(warmTime), p.whole(warmTime)+p.whole(p.time)
	c, err := startChild(orders{Kind: consumer, Brokers: p.kafka.Addrs(), Topic: p.topics[0], Rows: int64(rows), Warm: int64(warm)})
	if err != nil {
		return nil, err
	}
	defer c.close()
	begun := time.Now()
	if err := p.trickle(ctx, rows); err != nil {
		return nil, err
	}
	took := time.Since(begun).Seconds()
	cpu, err := r.CPU()
	if err != nil {
		return nil, err
	}
	var l latencies
	if err := c.outcome(ctx, &l); err != nil {
		return nil, errors.Join(err, r.running())
	}
	s := sample{
		sent.name: float64(rows) / took, latency50.name: l.P50, latency99.name: l.P99, latencyMax.name: l.Max,
		cpuShare.name: cpu.Seconds() / time.Since(r.begun).Seconds() * 100,
	}
	return s, errors.Join(r.memory(s), r.stop(ctx))
}

// whole is how many rows come in a time, in whole transactions.
func (p *place) whole(d time.Duration) int {
	return max(int(float64(p.rate)*d.Seconds())/p.load.perTransaction, 1) * p.load.perTransaction
}

// trickle commits rows at the rate of the case.
func (p *place) trickle(ctx context.Context, rows int) error {
	conn, err := p.pg.Connect(ctx, p.database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SET plan_cache_mode = force_generic_plan"); err != nil { // planning costs more than a row
		return err
	}
	if _, err := conn.Exec(ctx, "CALL trickle($1, $2, $3)", rows, p.load.perTransaction, p.rate); err != nil {
		return fmt.Errorf("commit rows: %w", err)
	}
	return nil
}

// latencies is what a consumer reports, in milliseconds.
type latencies struct {
	P50, P99, Max float64
}

// consume receives the rows of a topic from its beginning, and reports how long
// those took that are not warm-up.
func consume(ctx context.Context, o orders) (latencies, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...), kgo.ConsumeTopics(o.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return latencies{}, err
	}
	defer client.Close()
	var took []float64
	for received := int64(0); received < o.Rows; {
		fetches := client.PollFetches(ctx)
		at := time.Now().UnixMicro()
		if err := fetches.Err(); err != nil {
			return latencies{}, err
		}
		for r := range fetches.RecordsAll() {
			var row struct{ N, At int64 }
			if err := json.Unmarshal(r.Value, &row); err != nil {
				return latencies{}, fmt.Errorf("partition %d, offset %d: %w", r.Partition, r.Offset, err)
			}
			if received++; row.N > o.Warm {
				took = append(took, float64(at-row.At)/1e3)
			}
		}
	}
	if len(took) == 0 {
		return latencies{}, errors.New("no row has arrived that counts")
	}
	slices.Sort(took)
	return latencies{P50: quantile(took, 0.5), P99: quantile(took, 0.99), Max: took[len(took)-1]}, nil
}

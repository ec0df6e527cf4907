//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"time"
)

// A broker is warm when its compiler has little left to do: less than warmShare
// of a processor over a round of a trickle. As long as it has, it takes turns of
// milliseconds from everything else.
const (
	warmShare  = 0.05
	warmRounds = 12
)

// warmUp has the broker compile and the operating system cache what servers that
// have been running for a while would have: for many rows at once, and for few at
// a time.
func (b *bench) warmUp(ctx context.Context) error {
	b.say("warming up")
	_, err := b.measure(ctx, b.warming("drain", load{200_000, 100, 300}, (*place).drain), 1)
	for round := 0; err == nil && round < warmRounds; round++ {
		before, unknown := b.servers.compiled()
		begun := time.Now()
		s := b.warming(fmt.Sprintf("trickle_%d", round), load{perTransaction: 1, rowBytes: 300}, (*place).latency)
		s.rate, s.time = 1000, 8*time.Second
		_, err = b.measure(ctx, s, 1)
		after, _ := b.servers.compiled()
		if unknown != nil || (after-before).Seconds() < warmShare*time.Since(begun).Seconds() {
			break
		}
	}
	return err
}

// warming is a case whose figures do not count.
func (b *bench) warming(name string, l load, run func(*place, context.Context) error) scenario {
	s := scenario{name: "warm_up_" + name, load: l, topics: 1, partitions: usualPartitions, contenders: alone, run: run}
	return s.scaled(b.scale)
}

// compiled is the processor time that the broker has spent on compiling.
func (s *servers) compiled() (time.Duration, error) {
	return s.kafka.Broker(0).Process().ThreadsCPU("CompilerThre") // of "C1" and "C2 CompilerThread0", of which 15 bytes are kept
}

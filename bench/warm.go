//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"time"
)

// A broker is warm when its compiler has little left to do: less than warmShare
// of a processor over a round. As long as it has, it takes turns of milliseconds
// from everything else.
const (
	warmShare  = 0.05
	warmRounds = 12
)

// warmUp has the broker compile and the operating system cache what servers that
// have been running for a while would have: for many rows at once, and for few at
// a time.
func (b *bench) warmUp(ctx context.Context) error {
	b.say("warming up")
	drain := scenario{name: "warm_up_drain", load: load{200_000, 100, 300}, run: (*place).drain}
	if err := b.warmUntilCompiled(ctx, drain); err != nil {
		return err
	}
	trickle := scenario{name: "warm_up_trickle", load: load{perTransaction: 1, rowBytes: 300}, rate: 1000, time: 8 * time.Second, run: (*place).latency}
	return b.warmUntilCompiled(ctx, trickle)
}

// warmUntilCompiled runs a case, whose figures do not count, until the broker is
// warm for it. Where the system does not tell what a thread needs, once is enough.
func (b *bench) warmUntilCompiled(ctx context.Context, s scenario) error {
	s.topics, s.partitions, s.contenders = 1, usualPartitions, alone
	s = s.scaled(b.scale)
	name := s.name
	for round := range warmRounds {
		s.name = fmt.Sprintf("%s_%d", name, round)
		before, unknown := b.servers.compiled()
		begun := time.Now()
		if _, err := b.measure(ctx, s, 1); err != nil {
			return err
		}
		after, _ := b.servers.compiled()
		if unknown != nil || (after-before).Seconds() < warmShare*time.Since(begun).Seconds() {
			break
		}
	}
	return nil
}

// compiled is the processor time that the broker has spent on compiling.
func (s *servers) compiled() (time.Duration, error) {
	return s.kafka.Broker(0).Process().ThreadsCPU("CompilerThre") // of "C1" and "C2 CompilerThread0", of which 15 bytes are kept
}

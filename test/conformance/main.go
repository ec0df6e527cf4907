//go:build linux || darwin

// Command conformance runs Debezium's PostgreSQL connector with its outbox event
// router, in a worker of Kafka Connect, and outbox-cdc with the profile
// debezium, beside each other on the same rows and the same Kafka, and compares
// the records: topic, partition, key, headers and value, byte by byte.
//
// What may differ, and why, is the table of docs/debezium.md. A difference that
// is not in it ends the command with exit code 1, and so does one in it that is
// not there any more. With -update it writes the table instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// bound is the longest that everything together may take, on a machine that is
// busy and has to fetch the servers first.
const bound = 30 * time.Minute

func main() {
	update := flag.Bool("update", false, "write the table of "+pageName+" instead of comparing with it")
	only := flag.String("case", "", "run this case alone, or "+cutOverCase+", and compare no page")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "conformance: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, release) // a second signal ends the process at once
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("not done within %s", bound))
	defer cancel()
	if err := conformance(ctx, os.Stdout, *only, *update); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// conformance is the whole run.
func conformance(ctx context.Context, out io.Writer, only string, update bool) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	begun := time.Now()
	s, err := openStage(ctx, out)
	if err != nil {
		return err
	}
	if only == "" || only == cutOverCase {
		err = s.cutOvers(ctx)
	}
	var results []result
	if err == nil {
		results, err = s.runAll(ctx, chosen)
	}
	if err == nil {
		err = report(out, results, time.Since(begun))
	}
	if results != nil && only == "" {
		err = errors.Join(err, bringPage(results, update))
	}
	return errors.Join(err, s.close())
}

// result is what a comparison has shown.
type result struct {
	comparison
	outcome
	there, here side
}

// runAll runs comparisons. Debezium works on all at once, as a worker of Connect
// does; the binary is started for each.
func (s *stage) runAll(ctx context.Context, chosen []comparison) ([]result, error) {
	fmt.Fprintf(s.out, "conformance: making tables, slots and topics of %d cases ...\n", len(chosen))
	for _, step := range []func(context.Context, comparison) error{s.prepare, s.initialize, s.load, s.startThere} {
		if err := atOnce(ctx, len(chosen), func(ctx context.Context, i int) error { return step(ctx, chosen[i]) }); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(s.out, "conformance: both sides publish ...\n")
	results := make([]result, len(chosen))
	var done atomic.Int32
	err := atOnce(ctx, len(chosen), func(ctx context.Context, i int) error {
		c, r := chosen[i], &results[i]
		r.comparison = c
		var err error
		if r.here.failed, err = s.runHere(ctx, c); err != nil {
			return err
		}
		if r.there.failed, err = s.awaitThere(ctx, c); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "conformance: %d of %d: %s\n", done.Add(1), len(chosen), c.name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := s.connect.Stop(ctx); err != nil {
		return nil, err
	}
	return results, s.judge(ctx, results)
}

// atOnce calls do with each index below n, some at a time, and returns the
// first error.
func atOnce(ctx context.Context, n int, do func(context.Context, int) error) error {
	const some = 8
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(some)
	for i := range n {
		all.Go(func() error { return do(ctx, i) })
	}
	return all.Wait()
}

// judge reads the records, now that nobody writes any more, and compares them.
func (s *stage) judge(ctx context.Context, results []result) error {
	for i := range results {
		r := &results[i]
		var err error
		if r.there.records, err = s.records(ctx, thereSide, r.comparison); err != nil {
			return err
		}
		if r.here.records, err = s.records(ctx, hereSide, r.comparison); err != nil {
			return err
		}
		if r.here.setAside, err = s.deadLetters(ctx, r.comparison); err != nil {
			return err
		}
		r.outcome = compare(r.there, r.here, r.timed)
	}
	return nil
}

// report prints what was found, and fails if it is not what is known.
func report(out io.Writer, results []result, took time.Duration) error {
	var pairs, identical, surprises int
	for _, r := range results {
		fmt.Fprintf(out, "%-24s %4d records, differ in: %s\n", r.name, r.pairs, r.outcome.differs)
		if r.outcome.differs.String() != r.comparison.differs.String() {
			surprises++
			fmt.Fprintf(out, "  expected: %s\n", r.comparison.differs)
			for _, p := range allParts {
				for _, detail := range r.details[p] {
					fmt.Fprintf(out, "  %s: %s\n", p, detail)
				}
			}
		}
		pairs, identical = pairs+r.pairs, identical+r.identical
	}
	fmt.Fprintf(out, "%d cases, %d records on both sides, %d of them byte for byte the same, in %s\n", len(results), pairs, identical, took.Round(time.Second))
	if surprises > 0 {
		return fmt.Errorf("%d cases do not show what is known of them", surprises)
	}
	return nil
}

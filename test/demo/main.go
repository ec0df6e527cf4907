//go:build linux || darwin

// Command demo shows outbox-cdc at work on a real PostgreSQL and a real Kafka:
// a service commits orders, the records come out of Kafka, the relay is killed
// in between and started again, and in the end every event is accounted for.
//
// It ends by itself, with exit code 1 if an event was lost, doubled or out of
// order, and leaves nothing running, however it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// errBroken is the end of a demo whose promise was not kept.
var errBroken = errors.New("the promise is broken: see the summary")

func main() {
	keep := flag.Bool("keep", false, "run on until Ctrl-C")
	orders := flag.String("orders", "", "file of orders, one JSON object a line (default: "+exampleOrders+")")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, release) // a second signal ends the process at once
	if err := demo(ctx, newScreen(os.Stdout), *orders, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is the whole show. When ctx ends it comes to an orderly end early.
func demo(ctx context.Context, out *screen, file string, keep bool) error {
	changes, err := ordersFrom(file)
	if err != nil {
		return err
	}
	out.title()
	s, err := openStage(ctx, out)
	if err != nil {
		return interrupted(ctx, err)
	}
	err = perform(ctx, s, out, changes, keep)
	return errors.Join(err, s.close())
}

// perform sets everything up with the binary's own commands, plays the show and
// judges it.
func perform(ctx context.Context, s *stage, out *screen, changes []change, keep bool) error {
	if err := s.prepare(ctx, out); err != nil {
		return interrupted(ctx, err)
	}
	p := newPlay(s, out, changes, keep)
	if err := p.run(ctx); err != nil {
		return err
	}
	records, err := s.leave(out)
	if err != nil {
		return err
	}
	verdict := p.ledger.judge(records)
	out.summary(verdict, p.ledger.latencies())
	if !verdict.kept() {
		return errBroken
	}
	return nil
}

// exampleOrders is relative to the root of the repository.
const exampleOrders = "examples/orders.jsonl"

// ordersFrom reads the orders of a file, or the example.
func ordersFrom(file string) ([]change, error) {
	name, path := file, file
	if file == "" {
		root, err := harness.RepositoryRoot()
		if err != nil {
			return nil, err
		}
		name, path = exampleOrders, filepath.Join(root, exampleOrders)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("orders: %w", err)
	}
	return parseOrders(name, string(text))
}

// interrupted makes nothing of an error that is the consequence of a signal.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted before the show began")
	}
	return err
}

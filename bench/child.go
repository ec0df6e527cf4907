//go:build linux || darwin

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// Readers and consumers are processes of their own, so that the operating
// system counts what they use: this program again, with its orders in the
// environment.
const envChild = "OUTBOX_BENCH_CHILD"

// orders say what a child is to do.
type orders struct {
	// Kind is naive, paced, or consumer.
	Kind string
	// DSN and Slot lead a reader to its rows.
	DSN, Slot string
	// Brokers and Topic lead a consumer to its records.
	Brokers []string
	Topic   string
	// Rows is how many there are. What a consumer receives of the first Warm
	// does not count.
	Rows, Warm int64
}

// consumer is the kind of child that measures latency.
const consumer = "consumer"

func isChild() bool { return os.Getenv(envChild) != "" }

// runChild does what the orders say, prints the outcome as JSON, and returns the
// exit code.
func runChild() int {
	var o orders
	err := json.Unmarshal([]byte(os.Getenv(envChild)), &o)
	if err == nil {
		var outcome any
		ctx, cancel := context.WithTimeout(context.Background(), runLimit)
		defer cancel()
		switch o.Kind {
		case naive:
			outcome, err = readNaively(ctx, o)
		case paced:
			outcome, err = readPaced(ctx, o)
		case consumer:
			outcome, err = consume(ctx, o)
		default:
			err = fmt.Errorf("there is no child %q", o.Kind)
		}
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(outcome)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runLimit is how long one run of one contender may take.
const runLimit = 10 * time.Minute

// child is a running child.
type child struct {
	*harness.Process
	begun time.Time
	dir   string
}

// startChild starts a child. The caller closes it.
func startChild(o orders) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "outbox-bench-")
	if err != nil {
		return nil, err
	}
	env := []string{envChild + "=" + string(encoded)}
	if o.Kind == consumer {
		env = append(env, "GOMAXPROCS=1") // it has little to do, and shares the processors with what is measured
	}
	begun := time.Now()
	process, err := harness.StartProcess(harness.Command{
		Path: program, Env: env,
		Stdout: filepath.Join(dir, "stdout"), Stderr: filepath.Join(dir, "stderr"),
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &child{process, begun, dir}, nil
}

// outcome waits for the child and reads what it has to say.
func (c *child) outcome(ctx context.Context, into any) error {
	code, err := c.Wait(ctx)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(c.Stderr()))
	}
	return json.Unmarshal([]byte(c.Stdout()), into)
}

// close ends the child and removes its output.
func (c *child) close() error { return errors.Join(c.Kill(), os.RemoveAll(c.dir)) }

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

func TestClassify(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		class class
		code  int
	}{
		{"usage", usage("no"), classFatal, 2},
		{"shutdown timeout", errShutdownTimeout, classFatal, 1},
		{"second signal", errSecondSignal, classFatal, 1},
		{"a fault of ours", fmt.Errorf("%w: index out of range", errInternal), classFatal, 1},
		{"start over", publisher.ErrStartOver, classStartOver, 1},
		{"halted", fmt.Errorf("%w: event 1", publisher.ErrHalted), classFatal, 8},
		{"fence required", publisher.ErrFence, classFatal, 9},
		{"Kafka login", &publisher.Fault{Kind: publisher.ErrDenied}, classFatal, 9},
		{"Kafka topic", &publisher.Fault{Kind: publisher.ErrSetup}, classFatal, 2},
		{"Kafka away", &publisher.Fault{Kind: publisher.ErrUnreachable}, classTransient, 5},
		{"Kafka away for too long", fmt.Errorf("%w: %w", errNotStarted, &publisher.Fault{Kind: publisher.ErrUnreachable}), classTransient, 5},
		{"publication", &replication.Fault{Kind: replication.ErrSetup}, classFatal, 2},
		{"slot lost", &replication.Fault{Kind: replication.ErrGap, Cause: &pgconn.PgError{Code: "55000"}}, classFatal, 6},
		{"slot moved", fmt.Errorf("%w: by hand", checkpoint.ErrMoved), classFatal, 6},
		{"slot busy", &replication.Fault{Kind: replication.ErrBusy}, classFatal, 7},
		{"password", &replication.Fault{Kind: replication.ErrDenied, Cause: &pgconn.PgError{Code: "28P01"}}, classFatal, 9},
		{"right", fmt.Errorf("count: %w", &pgconn.PgError{Code: "42501"}), classFatal, 9},
		{"column gone", fmt.Errorf("decode: %w", &decoder.MappingError{}), classFatal, 2},
		{"PostgreSQL away", &replication.Fault{Kind: replication.ErrUnreachable}, classTransient, 4},
		{"another owner", replication.ErrNotOwner, classTransient, 4},
		{"server stops", replication.ErrShutdown, classTransient, 4},
		{"silence", replication.ErrSilent, classTransient, 4},
		{"record taken over", checkpoint.ErrOvertaken, classTransient, 4},
		{"walsender ended", &pgconn.PgError{Code: "57P01"}, classTransient, 1},
		{"session broke before the first was up", fmt.Errorf("%w: %w", errNotStarted, io.ErrUnexpectedEOF), classTransient, 4},
		{"nobody knows", io.ErrUnexpectedEOF, classTransient, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := classify(tc.err)
			if got.class != tc.class || got.code != tc.code {
				t.Errorf("got class %d and code %d, want %d and %d", got.class, got.code, tc.class, tc.code)
			}
		})
	}
}

func TestRulesAreComplete(t *testing.T) {
	known := make(map[int]bool)
	for _, c := range exitCodes() {
		known[c.code] = true
	}
	names := make(map[string]bool)
	for _, r := range rules() {
		if r.name == "" || r.reason == "" || r.remedy == "" || names[r.name] || !known[r.code] || r.code == codeOK {
			t.Errorf("a text is missing or said twice, or the code is none: %q, code %d, reason %q, remedy %q", r.name, r.code, r.reason, r.remedy)
		}
		names[r.name] = true
	}
}

func TestOperatorLines(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want []string
	}{
		{"one line", errors.New("slot is gone"), []string{"slot is gone"}},
		{"several lines of one error", errors.New("cannot connect:\n\thost a: refused\n\thost b: refused\n"), []string{"cannot connect:; host a: refused; host b: refused"}},
		{"faults of the configuration", usageError{errors.Join(errors.New("--a is wrong"), errors.New("--b is wrong"))}, []string{"--a is wrong", "--b is wrong"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := operatorLines(tc.err); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestInterruptedCommand(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	p := &program{out: io.Discard, err: io.Discard, stop: stopping{soft: ctx, hard: t.Context()}}
	if code := p.execute([]string{"outbox-cdc", "slot", "list", "--dsn", "host=127.0.0.1 port=1"}); code != codeRuntime {
		t.Errorf("got exit code %d, want %d: the command has not done its work", code, codeRuntime)
	}
	if code := p.execute([]string{"outbox-cdc", "run", "--brokers", "127.0.0.1:1", "--dsn", "host=127.0.0.1 port=1"}); code != codeOK {
		t.Errorf("got exit code %d, want %d: run was asked to stop and did", code, codeOK)
	}
}

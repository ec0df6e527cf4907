//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

const (
	database = "shop"
	// topic is where the default template of outbox-cdc sends events of
	// aggregates of type order.
	topic      = "outbox.event.order"
	partitions = 3
)

// stage is what the show needs: two servers, a connection for the service, and
// the relay.
type stage struct {
	postgres *harness.Postgres
	kafka    *harness.Kafka
	db       *pgx.Conn
	env      []string       // by which the binary finds both servers
	relay    *harness.Relay // nil while none runs
}

// openStage starts the servers and builds the binary, all at once.
func openStage(ctx context.Context, out *screen) (*stage, error) {
	s := &stage{}
	progress := out.progress()
	fmt.Fprintln(progress, "starting both servers and building outbox-cdc ...")
	all, starting := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		s.postgres, err = harness.StartPostgres(starting, harness.PostgresConfig{Progress: progress})
		return err
	})
	all.Go(func() (err error) {
		s.kafka, err = harness.StartKafka(starting, harness.KafkaConfig{Progress: progress})
		return err
	})
	all.Go(func() error {
		_, err := harness.BuildBinary(starting, progress)
		return err
	})
	if err := all.Wait(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// prepare makes the shop's database, and everything of outbox-cdc with its own
// commands.
func (s *stage) prepare(ctx context.Context, out *screen) error {
	if err := s.postgres.Exec(ctx, "postgres", "CREATE DATABASE "+database); err != nil {
		return err
	}
	var err error
	if s.db, err = s.postgres.Connect(ctx, database); err != nil {
		return err
	}
	if _, err := s.db.Exec(ctx, shopTables); err != nil {
		return err
	}
	if err := s.kafka.CreateTopic(ctx, topic, harness.TopicConfig{Partitions: partitions}); err != nil {
		return err
	}
	s.env = []string{"OUTBOX_CDC_DSN=" + s.postgres.DSN(database), "OUTBOX_CDC_BROKERS=" + strings.Join(s.kafka.Addrs(), ",")}
	out.space()
	for _, variable := range s.env {
		out.command("export " + variable)
	}
	out.command("outbox-cdc init")
	if err := s.command(ctx, out, "init"); err != nil {
		return err
	}
	out.command("outbox-cdc run")
	if err := s.startRelay(); err != nil {
		return err
	}
	return s.awaitStream(ctx)
}

// command runs the binary to its end and shows what it says.
func (s *stage) command(ctx context.Context, out *screen, args ...string) error {
	r, err := harness.StartRelay(ctx, s.env, args...)
	if err != nil {
		return err
	}
	code, err := r.Wait(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("outbox-cdc %s: exit code %d: %s", strings.Join(args, " "), code, strings.TrimSpace(r.Stderr()))
	}
	if err == nil {
		out.output(r.Stdout())
	}
	return errors.Join(err, r.Close())
}

// startRelay starts the relay.
func (s *stage) startRelay() (err error) {
	s.relay, err = harness.StartRelay(context.Background(), s.env, "run")
	return err
}

// awaitStream waits until the relay streams.
func (s *stage) awaitStream(ctx context.Context) error {
	const active = "SELECT count(*) FROM pg_replication_slots WHERE active"
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(30 * time.Second)
	for {
		if n, err := harness.QueryValue[int](ctx, s.postgres, database, active); err != nil || n > 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-s.relay.Done():
			return s.relayFailure()
		case <-timeout:
			return fmt.Errorf("outbox-cdc run does not stream after 30 s:\n%s", s.relay.Stderr())
		}
	}
}

// killRelay ends the relay with SIGKILL.
func (s *stage) killRelay() error {
	err := s.relay.Close()
	s.relay = nil
	return err
}

// relayDone is closed when the relay has ended; nil, which never is, while none
// runs.
func (s *stage) relayDone() <-chan struct{} {
	if s.relay == nil {
		return nil
	}
	return s.relay.Done()
}

// relayFailure says how the relay ended that should not have.
func (s *stage) relayFailure() error {
	code, err := s.relay.Wait(context.Background())
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(s.relay.Stderr()), "\n")
	return fmt.Errorf("outbox-cdc run has ended with exit code %d:\n%s", code, strings.Join(lines[max(0, len(lines)-10):], "\n"))
}

// leave stops the relay as a service manager would and returns all that the
// topic holds.
func (s *stage) leave(out *screen) ([]harness.Record, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("not within a minute"))
	defer cancel()
	if err := s.awaitStream(ctx); err != nil { // it may have been started just now
		return nil, err
	}
	code, took, err := s.relay.Stop(ctx, syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, s.relayFailure()
	}
	out.stopped(took)
	return s.kafka.ReadAll(ctx, topic)
}

// close ends everything.
func (s *stage) close() error {
	var err error
	if s.relay != nil {
		err = s.relay.Close()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close(context.Background()))
	}
	if s.kafka != nil {
		err = errors.Join(err, s.kafka.Close())
	}
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Close())
	}
	return err
}

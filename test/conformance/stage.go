//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

const database = "shop"

// The prefixes of the topics of the two sides.
const (
	thereSide = "debezium"
	hereSide  = "outbox-cdc"
)

// stage is the servers.
type stage struct {
	out      io.Writer
	postgres *harness.Postgres
	kafka    *harness.Kafka
	connect  *harness.Connect
}

// openStage starts everything at once. The caller closes it.
func openStage(ctx context.Context, out io.Writer) (*stage, error) {
	s := &stage{out: out}
	starting, startCtx := errgroup.WithContext(ctx)
	starting.Go(func() (err error) {
		s.postgres, err = harness.StartPostgres(startCtx, harness.PostgresConfig{
			Progress: out, Settings: map[string]string{"max_replication_slots": "200", "max_wal_senders": "200", "max_connections": "400"},
		})
		return err
	})
	starting.Go(func() (err error) {
		// Brokers delete by timestamp, and the events of some cases are older
		// than the week that a record is kept by default.
		keep := map[string]string{"log.retention.ms": "-1"}
		if s.kafka, err = harness.StartKafka(startCtx, harness.KafkaConfig{Progress: out, Properties: keep}); err != nil {
			return err
		}
		s.connect, err = harness.StartConnect(startCtx, harness.ConnectConfig{Brokers: s.kafka.Addrs(), Progress: out})
		return err
	})
	starting.Go(func() error {
		_, err := harness.BuildBinary(startCtx, out)
		return err
	})
	if err := starting.Wait(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.postgres.Exec(ctx, "postgres", "CREATE DATABASE "+database); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close ends what was started.
func (s *stage) close() error {
	var err error
	if s.connect != nil {
		err = s.connect.Close()
	}
	if s.kafka != nil {
		err = errors.Join(err, s.kafka.Close())
	}
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Close())
	}
	return err
}

// prepare makes the tables of a comparison, its topics, a publication for each
// side and Debezium's slot; the other one is made by initialize.
func (s *stage) prepare(ctx context.Context, c comparison) error {
	publishes := c.publishes
	if publishes == "" {
		publishes = "insert"
	}
	id := c.id
	if id == "" {
		id = "uuid"
	}
	var sql strings.Builder
	fmt.Fprintf(&sql, "CREATE SCHEMA %s;\n", c.schema())
	for _, table := range c.tableNames() {
		fmt.Fprintf(&sql, "CREATE TABLE %s (id %s PRIMARY KEY, %s);\n", table, id, c.columns)
	}
	for _, side := range []string{thereSide, hereSide} {
		fmt.Fprintf(&sql, "CREATE PUBLICATION %s FOR TABLE %s WITH (publish = '%s');\n",
			publicationOf(side, c), strings.Join(c.tableNames(), ", "), publishes)
	}
	if err := s.postgres.Exec(ctx, database, sql.String()); err != nil {
		return fmt.Errorf("%s: make the table: %w", c.name, err)
	}
	if err := s.postgres.Exec(ctx, database, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slotOf(thereSide, c)); err != nil {
		return fmt.Errorf("%s: make the slot: %w", c.name, err)
	}
	for _, topic := range slices.Compact(slices.Concat(topicsOf(thereSide, c), topicsOf(hereSide, c))) {
		if err := s.kafka.CreateTopic(ctx, topic, harness.TopicConfig{Partitions: partitions}); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func publicationOf(side string, c comparison) string {
	return strings.ReplaceAll(side, "-", "_") + "_" + c.schema()
}

func slotOf(side string, c comparison) string { return publicationOf(side, c) }

// topicPrefix is in front of the names of a side's topics.
func topicPrefix(side string, c comparison) string {
	if c.shared {
		return c.name + "."
	}
	return side + "." + c.name + "."
}

// topicsOf are the topics of a side.
func topicsOf(side string, c comparison) []string {
	var names []string
	for _, topic := range c.topicNames() {
		names = append(names, topicPrefix(side, c)+topic)
	}
	return names
}

// load commits the rows of a comparison.
func (s *stage) load(ctx context.Context, c comparison) error {
	statements := c.inserts()
	if c.together {
		statements = []string{strings.Join(statements, ";\n")}
	}
	if c.behind != "" {
		statements = append(statements, fmt.Sprintf(c.behind, c.tableNames()[0]))
	}
	db, err := s.postgres.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %s: %w", c.name, statement[:min(len(statement), 200)], err)
		}
	}
	return nil
}

// records returns what a side has written, the prefix of its topics taken away.
func (s *stage) records(ctx context.Context, side string, c comparison) ([]harness.Record, error) {
	records, err := s.kafka.ReadAll(ctx, topicsOf(side, c)...)
	for _, r := range records {
		r.Topic = strings.TrimPrefix(r.Topic, topicPrefix(side, c))
	}
	return records, err
}

// written is how many records topics hold that nobody writes to in
// transactions.
func (s *stage) written(ctx context.Context, topics []string) (int, error) {
	ends, err := s.kafka.Admin().ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	all := 0
	ends.Each(func(end kadm.ListedOffset) { all += int(end.Offset) })
	return all, err
}

// await calls condition until it returns nil, and returns its last error when
// that takes longer than atMost or ctx ends.
func await(ctx context.Context, atMost time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, atMost, fmt.Errorf("not within %s", atMost))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

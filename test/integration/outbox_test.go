//go:build linux || darwin

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// superuser is the role that every server has, for harness.Postgres.DSNVia.
var superuser = url.User("postgres")

// shortTimeout has the server end a session after two seconds without a word
// from the relay.
var shortTimeout = map[string]string{"wal_sender_timeout": "2s"}

// patience is how long a condition may take that nothing stands in the way of.
// It is far longer than it should take, for machines that are busy.
const patience = 30 * time.Second

// outboxConfig says what newOutbox makes. The zero value is good.
type outboxConfig struct {
	// postgres and kafka are the servers; nil is the shared ones.
	postgres *harness.Postgres
	kafka    *harness.Kafka
	// types are the aggregate types; each has a topic. nil is "order".
	types []string
	// later are aggregate types whose topics do not exist before createTopic.
	later []string
	// partitions is how many each topic has; 0 is 4.
	partitions int
	// replication is how many replicas each topic has; 0 is one on each broker.
	replication int
	// topicSettings are the topics' own configuration.
	topicSettings map[string]string
	// settings hold for all sessions in the database, those of the relay
	// included: a short wal_sender_timeout, for instance.
	settings map[string]string
	// sql is executed before init. With it table and publication may be others
	// than init's defaults.
	sql, table, publication string
	// leaves is what the names of the table's partitions begin with, as
	// test_decoding prints them; empty if the table is not partitioned.
	leaves string
}

// outbox is a database with an outbox table and a slot, both made by the
// binary's own init, and topics of its own. It is the one thing that tests work
// on.
type outbox struct {
	t           testing.TB
	config      outboxConfig
	pg          *harness.Postgres
	kafka       *harness.Kafka
	database    string
	slot        string
	publication string
	table       string // as in SQL
	topicPrefix string
	ledger      *ledger
	sampler     *sampler
	// removed are records that the test has deleted from the topics; they
	// were there for consumers to see.
	removed  []harness.Record
	verified bool

	mu     sync.Mutex // guards what follows
	exists []string   // topics
}

// newOutbox makes an outbox. The test must end in verify.
func newOutbox(t testing.TB, config outboxConfig) *outbox {
	t.Helper()
	o := &outbox{t: t, config: config, pg: config.postgres, kafka: config.kafka}
	if o.pg == nil {
		o.pg = harness.SharedPostgres(t)
	}
	if o.kafka == nil {
		o.kafka = harness.SharedKafka(t, 1)
	}
	if o.config.types == nil {
		o.config.types = []string{"order"}
	}
	if o.config.partitions == 0 {
		o.config.partitions = 4
	}
	o.prepareDatabase()
	for _, aggregateType := range o.config.types {
		o.createTopic(aggregateType)
	}
	if result := o.command("init"); result.Code != 0 {
		t.Fatalf("init ended with %d: %s", result.Code, result.Stderr)
	}
	o.ledger = newLedger(o)
	o.sampler = startSampler(o)
	t.Cleanup(func() {
		o.sampler.stop()
		if !o.verified && !t.Failed() {
			t.Error("the test has not ended in verify")
		}
	})
	return o
}

// prepareDatabase makes the database and what init is to find in it.
func (o *outbox) prepareDatabase() {
	o.t.Helper()
	o.database = harness.NewDatabase(o.t, o.pg)
	o.slot, o.topicPrefix = o.database, o.database
	o.publication, o.table = "outbox_cdc", "public.outbox_events"
	if o.config.publication != "" {
		o.publication = o.config.publication
	}
	if o.config.table != "" {
		o.table = o.config.table
	}
	for name, value := range o.config.settings {
		o.exec(fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", pgx.Identifier{o.database}.Sanitize(), name, value))
	}
	if o.config.sql != "" {
		o.exec(o.config.sql)
	}
}

// createTopic creates the topic of an aggregate type.
func (o *outbox) createTopic(aggregateType string) {
	o.t.Helper()
	topic := o.topic(aggregateType)
	err := o.kafka.CreateTopic(o.t.Context(), topic, harness.TopicConfig{
		Partitions: o.config.partitions, Replication: o.config.replication, Settings: o.config.topicSettings,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exists = append(o.exists, topic)
}

// topic returns the topic of an aggregate type.
func (o *outbox) topic(aggregateType string) string { return o.topicPrefix + "." + aggregateType }

// topics returns the topics that exist.
func (o *outbox) topics() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.exists)
}

// dsn returns the environment variable that leads the binary to the database.
func (o *outbox) dsn() string { return "OUTBOX_CDC_DSN=" + o.pg.DSN(o.database) }

// command runs one of the binary's commands on the outbox's slot, publication
// and table, to its end. The flags that a command lacks are left out by name.
func (o *outbox) command(args ...string) harness.Result {
	o.t.Helper()
	env := []string{o.dsn(), "OUTBOX_CDC_SLOT=" + o.slot, "OUTBOX_CDC_PUBLICATION=" + o.publication, "OUTBOX_CDC_TABLE=" + o.table}
	return harness.RunRelay(o.t, env, args...)
}

// exec executes SQL in the outbox's database, or ends the test.
func (o *outbox) exec(sql string, args ...any) {
	o.t.Helper()
	if err := o.pg.Exec(o.t.Context(), o.database, sql, args...); err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
}

// value returns the one value of a query in the outbox's database, or ends the
// test.
func value[T any](o *outbox, sql string, args ...any) T {
	o.t.Helper()
	v, err := harness.QueryValue[T](o.t.Context(), o.pg, o.database, sql, args...)
	if err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// lsn is value for a position in the write-ahead log.
func (o *outbox) lsn(sql string, args ...any) pglogrepl.LSN {
	o.t.Helper()
	lsn, err := pglogrepl.ParseLSN(value[string](o, sql, args...))
	if err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
	return lsn
}

// walEnd returns how far the write-ahead log is on disk: everything that was
// committed before the call is before it.
func (o *outbox) walEnd() pglogrepl.LSN {
	o.t.Helper()
	return o.lsn("SELECT pg_current_wal_flush_lsn()::text")
}

// confirmed returns the slot's position.
func (o *outbox) confirmed() pglogrepl.LSN {
	o.t.Helper()
	return o.lsn("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", o.slot)
}

// walsender returns the pid of the process that serves the slot, 0 if none
// does.
func (o *outbox) walsender() int {
	o.t.Helper()
	return value[int](o, "SELECT coalesce(active_pid, 0) FROM pg_replication_slots WHERE slot_name = $1", o.slot)
}

// awaitConfirmed waits until the slot is confirmed up to lsn.
func (o *outbox) awaitConfirmed(lsn pglogrepl.LSN, timeout time.Duration) {
	o.t.Helper()
	harness.Eventually(o.t, timeout, func() error {
		if confirmed := o.confirmed(); confirmed < lsn {
			return fmt.Errorf("the slot is confirmed up to %s, not yet %s", confirmed, lsn)
		}
		return nil
	})
}

// awaitDrained waits until all that was committed so far is confirmed.
func (o *outbox) awaitDrained() {
	o.t.Helper()
	o.awaitConfirmed(o.walEnd(), patience)
}

// awaitRecords waits until the topics hold at least n records. Each acquired
// partition has a marker, which counts as one here.
func (o *outbox) awaitRecords(n int) {
	o.t.Helper()
	harness.Eventually(o.t, patience, func() error {
		if held := o.held(); held < n {
			return fmt.Errorf("the topics hold %d records, not yet %d", held, n)
		}
		return nil
	})
}

// awaitPublished waits until the topics hold all that is committed, whether it
// is confirmed or not.
func (o *outbox) awaitPublished() {
	o.t.Helper()
	want := o.ledger.count(committed)
	harness.Eventually(o.t, patience, func() error {
		if got := len(o.records()); got < want {
			return fmt.Errorf("the topics hold %d records, not yet %d", got, want)
		}
		return nil
	})
}

// held returns how many records and markers the topics hold.
func (o *outbox) held() int {
	ends, err := endOffsets(o.t.Context(), o.kafka, o.topics())
	if err != nil {
		return 0
	}
	var held int64
	for _, end := range ends {
		held += end
	}
	return int(held)
}

// partition is one partition of one topic.
type partition struct {
	topic  string
	number int32
}

// endOffsets returns the high watermarks of all partitions of topics.
func endOffsets(ctx context.Context, k *harness.Kafka, topics []string) (map[partition]int64, error) {
	listed, err := k.Admin().ListEndOffsets(ctx, topics...)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	ends := make(map[partition]int64)
	for topic, partitions := range listed {
		for number, end := range partitions {
			ends[partition{topic, number}] = end.Offset
		}
	}
	return ends, nil
}

// mustEndOffsets is endOffsets of all topics, or ends the test.
func (o *outbox) mustEndOffsets() map[partition]int64 {
	o.t.Helper()
	ends, err := endOffsets(o.t.Context(), o.kafka, o.topics())
	if err != nil {
		o.t.Fatal(err)
	}
	return ends
}

// hold checks a condition again and again for a while, and ends the test when
// it does not hold.
func (o *outbox) hold(length time.Duration, condition func() error) {
	o.t.Helper()
	begun := time.Now()
	harness.Eventually(o.t, length+patience, func() error {
		if err := condition(); err != nil {
			o.t.Fatal(err)
		}
		if held := time.Since(begun); held < length {
			return fmt.Errorf("it has held for %s, not yet %s", held, length)
		}
		return nil
	})
}

// records returns all that the topics hold.
func (o *outbox) records() []harness.Record {
	o.t.Helper()
	ctx, cancel := context.WithTimeoutCause(o.t.Context(), 2*time.Minute, errors.New("the topics were not read within 2 minutes"))
	defer cancel()
	records, err := o.kafka.ReadAll(ctx, o.topics()...)
	if err != nil {
		o.t.Fatal(err)
	}
	return records
}

// deadLetters returns the ids of the events that were set aside.
func (o *outbox) deadLetters() []string {
	o.t.Helper()
	schema := pgx.Identifier{"public"}
	if dot := strings.LastIndex(o.table, "."); dot >= 0 {
		schema = pgx.Identifier{strings.Trim(o.table[:dot], `"`)}
	}
	ids, err := harness.Query[string](o.t.Context(), o.pg, o.database,
		"SELECT coalesce(event_id, position) FROM "+schema.Sanitize()+".outbox_dead_letters ORDER BY id")
	if err != nil {
		o.t.Fatal(err)
	}
	return ids
}

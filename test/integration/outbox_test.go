//go:build linux || darwin

package integration

import (
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// superuser is the role that every server has, for harness.Postgres.DSNVia.
var superuser = url.User("postgres")

// shortTimeout has the server end a session after two seconds without a word
// from the relay.
var shortTimeout = map[string]string{"wal_sender_timeout": "2s"}

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
	// partitionsOf is the same for single aggregate types.
	partitionsOf map[string]int
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
	// proxied puts a proxy between the relay and PostgreSQL.
	proxied bool
	// pace is the time between two samples; 0 is samplePace.
	pace time.Duration
	// sum returns the MD5 of a row's payload, if it is known without the table.
	sum func(id string) (string, bool)
	// foreign tells the rows of others that share the topics, by their number.
	foreign func(number int64) bool
	// neighbour is another outbox whose topics are shared.
	neighbour *outbox
}

// outbox is a database with an outbox table and a slot, both made by the
// binary's own init, and topics of its own. It is the one thing that tests work
// on.
type outbox struct {
	t           testing.TB
	config      outboxConfig
	pg          *harness.Postgres
	kafka       *harness.Kafka
	proxy       *harness.Proxy // in front of pg; nil unless proxied
	database    string
	slot        string
	publication string
	table       string // as in SQL
	topicPrefix string
	ledger      *ledger
	sampler     *sampler
	// removed are records that the test has deleted from the topics, each time
	// some; they were there for consumers to see.
	removed  [][]harness.Record
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
	if o.config.proxied {
		o.proxy = harness.NewProxy(t, o.pg.Addr())
	}
	if o.config.neighbour != nil {
		o.topicPrefix, o.exists = o.config.neighbour.topicPrefix, o.config.neighbour.topics()
	} else {
		for _, aggregateType := range o.config.types {
			o.createTopic(aggregateType)
		}
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

// command runs one of the binary's commands on the outbox's slot, publication
// and table, to its end. They come from the environment, where a command that
// lacks the flag ignores them.
func (o *outbox) command(args ...string) harness.Result {
	o.t.Helper()
	env := []string{o.dsn(), "OUTBOX_CDC_SLOT=" + o.slot, "OUTBOX_CDC_PUBLICATION=" + o.publication, "OUTBOX_CDC_TABLE=" + o.table}
	return harness.RunRelay(o.t, env, args...)
}

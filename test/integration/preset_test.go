//go:build linux || darwin

package integration

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// bareOutbox is an outbox whose tables the test names itself, with topics for
// the given aggregate types. The oracle knows one kind of table only, so the
// test compares each record with what is expected.
func bareOutbox(t *testing.T, sql string, types ...string) *outbox {
	t.Helper()
	o := &outbox{t: t, config: outboxConfig{sql: sql, partitions: 4}, pg: harness.SharedPostgres(t), kafka: harness.SharedKafka(t, 1)}
	o.prepareDatabase()
	o.table = "" // an empty variable is none
	for _, aggregateType := range types {
		o.createTopic(aggregateType)
	}
	return o
}

// mustCommand is command, and ends the test if it fails.
func (o *outbox) mustCommand(args ...string) {
	o.t.Helper()
	if result := o.command(args...); result.Code != 0 {
		o.t.Fatalf("%s ended with %d: %s", strings.Join(args, " "), result.Code, result.Stderr)
	}
}

// event is what a record holds, but for its position.
type event struct {
	aggregateType, aggregateID, id, eventType, value string
	metadata                                         map[string]string // other headers
}

// headers are those of the event's record.
func (e event) headers() map[string]string {
	all := map[string]string{
		"event_id": e.id, "event_type": e.eventType, "aggregate_type": e.aggregateType, "aggregate_id": e.aggregateID, "content-type": "application/json",
	}
	maps.Copy(all, e.metadata)
	return all
}

// expectEvents compares all that the topics hold with the given events.
func (o *outbox) expectEvents(want ...event) {
	o.t.Helper()
	records := o.records()
	slices.SortFunc(records, func(a, b harness.Record) int { return strings.Compare(string(a.Key), string(b.Key)) })
	slices.SortFunc(want, func(a, b event) int { return cmp.Compare(a.id, b.id) })
	if len(records) != len(want) {
		o.t.Errorf("the topics hold %d records, want %d", len(records), len(want))
	}
	for i, record := range records[:min(len(records), len(want))] {
		o.expectEvent(record, want[i])
	}
}

func (o *outbox) expectEvent(record harness.Record, want event) {
	o.t.Helper()
	if record.Topic != o.topic(want.aggregateType) || string(record.Key) != want.id || string(record.Value) != want.value {
		o.t.Errorf("got %s: %s in topic %s, want %s: %s in topic %s",
			record.Key, record.Value, record.Topic, want.id, want.value, o.topic(want.aggregateType))
	}
	if partition := javaPartition(want.aggregateID, o.config.partitions); int(record.Partition) != partition {
		o.t.Errorf("%s is in partition %d, want %d", record.Key, record.Partition, partition)
	}
	headers := make(map[string]string)
	for _, h := range record.Headers {
		headers[h.Key] = string(h.Value)
	}
	if headers["position"] == "" || headers["origin"] == "" {
		o.t.Errorf("%s has no position, or no origin: %v", record.Key, headers)
	}
	delete(headers, "position")
	delete(headers, "origin")
	if !reflect.DeepEqual(headers, want.headers()) {
		o.t.Errorf("%s has the headers %v, want %v", record.Key, headers, want.headers())
	}
}

// The tables of the articles on the pattern, as they are printed there.
const (
	articleEvents = `CREATE TABLE outbox_events (
  id UUID PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type VARCHAR(100) NOT NULL, aggregate_id VARCHAR(100) NOT NULL,
  event_type VARCHAR(100) NOT NULL, payload JSONB NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), published_at TIMESTAMPTZ,
  retry_count INT NOT NULL DEFAULT 0, status VARCHAR(20) NOT NULL DEFAULT 'PENDING');
CREATE INDEX idx_outbox_pending ON outbox_events (status, created_at) WHERE status = 'PENDING'`
	articleMessages = `CREATE TABLE outbox_messages (
  id UUID PRIMARY KEY, event_type VARCHAR(100) NOT NULL, aggregate_id VARCHAR(100) NOT NULL, payload JSONB NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), processed_at TIMESTAMPTZ)`
	articleMessagesLong = `CREATE TABLE outbox_messages (
  id TEXT PRIMARY KEY, aggregate_type VARCHAR(100) NOT NULL, aggregate_id VARCHAR(100) NOT NULL, event_type VARCHAR(100) NOT NULL,
  payload JSONB NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), processed_at TIMESTAMPTZ, retry_count INT NOT NULL DEFAULT 0,
  last_error TEXT)`
	articleStore = `CREATE TABLE event_store (
  id BIGSERIAL PRIMARY KEY, stream_id VARCHAR(200) NOT NULL, stream_version BIGINT NOT NULL, event_type VARCHAR(100) NOT NULL,
  event_data JSONB NOT NULL, metadata JSONB, created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), UNIQUE (stream_id, stream_version))`
	// By time there can be no constraint on the streams' versions.
	storeByTime = `CREATE TABLE event_store (
  id BIGSERIAL, stream_id VARCHAR(200) NOT NULL, stream_version BIGINT NOT NULL, event_type VARCHAR(100) NOT NULL,
  event_data JSONB NOT NULL, metadata JSONB, created_at TIMESTAMPTZ NOT NULL DEFAULT NOW()) PARTITION BY RANGE (created_at);
CREATE TABLE event_store_old PARTITION OF event_store FOR VALUES FROM (MINVALUE) TO ('2026-01-01 00:00+00');
CREATE TABLE event_store_new PARTITION OF event_store FOR VALUES FROM ('2026-01-01 00:00+00') TO (MAXVALUE)`
)

// presetCases are tables of every preset: those of the articles, and those that
// init makes.
var presetCases = []struct {
	name, sql string
	flags     []string // of init and run
	init      []string // of init alone
	// inserts are what an application and a polling publisher do.
	inserts string
	want    []event
}{
	{
		name: "outbox_events of the articles",
		sql:  articleEvents,
		inserts: `INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('11111111-0000-0000-0000-000000000001', 'order', 'o-1', 'Placed', '{"n": 1}');
UPDATE outbox_events SET status = 'PUBLISHED', published_at = now(), retry_count = retry_count + 1;
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('11111111-0000-0000-0000-000000000002', 'order', 'o-2', 'Placed', '[]');
DELETE FROM outbox_events`,
		want: []event{
			{"order", "o-1", "11111111-0000-0000-0000-000000000001", "Placed", `{"n": 1}`, nil},
			{"order", "o-2", "11111111-0000-0000-0000-000000000002", "Placed", `[]`, nil},
		},
	},
	{
		name: "outbox_events that init makes",
		inserts: `INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('11111111-0000-0000-0000-000000000001', 'order', 'o-1', 'Placed', '{}');
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, metadata, payload) VALUES ('11111111-0000-0000-0000-000000000002', 'order', 'o-1', 'Paid', '{"tenant": "x"}', 'null')`,
		want: []event{
			{"order", "o-1", "11111111-0000-0000-0000-000000000001", "Placed", `{}`, nil},
			{"order", "o-1", "11111111-0000-0000-0000-000000000002", "Paid", `null`, map[string]string{"tenant": "x"}},
		},
	},
	{
		name: "outbox_events in full with ids of text",
		init: []string{"--full", "--id-type", "text"},
		inserts: `INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('e/1 é', 'order', 'o-1', 'Placed', '{}');
DELETE FROM outbox_events`,
		want: []event{{"order", "o-1", "e/1 é", "Placed", `{}`, nil}},
	},
	{
		name:    "outbox_events in full with ids of bigint",
		flags:   []string{"--preset", "outbox_events", "--table", "App.Outbox"},
		sql:     "CREATE SCHEMA app",
		init:    []string{"--full", "--id-type", "bigint"},
		inserts: `INSERT INTO app.outbox (aggregate_type, aggregate_id, event_type, payload, metadata) VALUES ('order', 'o-1', 'Placed', '{}', '{"tenant": "x"}')`,
		want:    []event{{"order", "o-1", "1", "Placed", `{}`, map[string]string{"tenant": "x"}}},
	},
	{
		name:  "outbox_messages of the articles",
		sql:   articleMessages,
		flags: []string{"--preset", "outbox_messages"},
		inserts: `INSERT INTO outbox_messages (id, event_type, aggregate_id, payload) VALUES ('11111111-0000-0000-0000-000000000001', 'Placed', 'o-1', '{"n": 1}');
UPDATE outbox_messages SET processed_at = now()`,
		want: []event{{"outbox_messages", "o-1", "11111111-0000-0000-0000-000000000001", "Placed", `{"n": 1}`, nil}},
	},
	{
		name:    "outbox_messages of the articles, the long form",
		sql:     articleMessagesLong,
		flags:   []string{"--preset", "outbox_messages"},
		inserts: `INSERT INTO outbox_messages (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('m/1 é', 'order', 'o-1', 'Placed', '{"n": 1}')`,
		want:    []event{{"order", "o-1", "m/1 é", "Placed", `{"n": 1}`, nil}},
	},
	{
		name:    "outbox_messages that init makes",
		flags:   []string{"--preset", "outbox_messages"},
		init:    []string{"--full", "--id-type", "text"},
		inserts: `INSERT INTO outbox_messages (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('m-1', 'order', 'o-1', 'Placed', '{}')`,
		want:    []event{{"order", "o-1", "m-1", "Placed", `{}`, nil}},
	},
	{
		name:  "debezium",
		flags: []string{"--preset", "debezium"},
		inserts: `INSERT INTO outboxevent (id, aggregatetype, aggregateid, type, payload) VALUES ('11111111-0000-0000-0000-000000000001', 'order', 'o-1', 'Placed', '{"n": 1}');
DELETE FROM outboxevent`,
		want: []event{{"order", "o-1", "11111111-0000-0000-0000-000000000001", "Placed", `{"n": 1}`, nil}},
	},
	{
		name:  "event_store",
		flags: []string{"--preset", "event_store"},
		inserts: `INSERT INTO event_store (stream_id, stream_version, event_type, event_data, metadata) VALUES
('order-1', 1, 'Placed', '{"n": 1}', '{"user": "u"}'), ('order-2', 1, 'Placed', '{"n": 2}', NULL), ('order-1', 2, 'Paid', '{"n": 3}', NULL)`,
		want: []event{
			{"event_store", "order-1", "order-1/1", "Placed", `{"n": 1}`, map[string]string{"user": "u"}},
			{"event_store", "order-2", "order-2/1", "Placed", `{"n": 2}`, nil},
			{"event_store", "order-1", "order-1/2", "Paid", `{"n": 3}`, nil},
		},
	},
	{
		name:    "event_store of the articles",
		sql:     articleStore,
		flags:   []string{"--preset", "event_store"},
		inserts: `INSERT INTO event_store (stream_id, stream_version, event_type, event_data) VALUES ('order-1', 1, 'Placed', '{"n": 1.10}')`,
		want:    []event{{"event_store", "order-1", "order-1/1", "Placed", `{"n": 1.10}`, nil}},
	},
	{
		name:  "event_store in partitions by time",
		sql:   storeByTime,
		flags: []string{"--preset", "event_store"},
		inserts: `INSERT INTO event_store (stream_id, stream_version, event_type, event_data, created_at) VALUES
('order-1', 1, 'Placed', '{}', '2025-12-31'), ('order-1', 2, 'Paid', '{}', '2026-01-02')`,
		want: []event{
			{"event_store", "order-1", "order-1/1", "Placed", `{}`, nil}, {"event_store", "order-1", "order-1/2", "Paid", `{}`, nil},
		},
	},
	{
		name:    "event_store in partitions",
		flags:   []string{"--preset", "event_store"},
		init:    []string{"--partitions", "4"},
		inserts: `INSERT INTO event_store (stream_id, stream_version, event_type, event_data) SELECT 'order-' || i, v, 'Placed', '{}' FROM generate_series(1, 4) i, generate_series(1, 2) v`,
		want: []event{
			{"event_store", "order-1", "order-1/1", "Placed", `{}`, nil}, {"event_store", "order-1", "order-1/2", "Placed", `{}`, nil},
			{"event_store", "order-2", "order-2/1", "Placed", `{}`, nil}, {"event_store", "order-2", "order-2/2", "Placed", `{}`, nil},
			{"event_store", "order-3", "order-3/1", "Placed", `{}`, nil}, {"event_store", "order-3", "order-3/2", "Placed", `{}`, nil},
			{"event_store", "order-4", "order-4/1", "Placed", `{}`, nil}, {"event_store", "order-4", "order-4/2", "Placed", `{}`, nil},
		},
	},
}

// TestPresets has init prepare a table of each preset, or finds the one of the
// articles, inserts as an application would, and compares every record.
func TestPresets(t *testing.T) {
	for _, c := range presetCases {
		t.Run(c.name, func(t *testing.T) {
			o := bareOutbox(t, c.sql, c.want[0].aggregateType)
			o.mustCommand(slices.Concat([]string{"init"}, c.init, c.flags)...)
			r := o.start(c.flags...)
			for statement := range strings.SplitSeq(c.inserts, ";\n") {
				o.exec(statement)
			}
			o.awaitDrained()
			r.stop()
			o.expectEvents(c.want...)
		})
	}
}

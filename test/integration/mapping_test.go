//go:build linux || darwin

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// mappedRow is a row for a relay with a setting for everything, and what becomes
// of it.
type mappedRow struct {
	name    string
	columns map[string]any // beside the usual ones

	reason    string // why it is set aside; empty if it is not
	filtered  bool
	key       string
	partition int32
	headers   map[string]string // some of them; "-" is none
	committed bool              // the timestamp is that of the commit
}

func mappedRows() []mappedRow {
	long := strings.Repeat("x", 100_000)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	row := func(name string, columns map[string]any) mappedRow {
		return mappedRow{name: name, columns: columns, key: "acme", partition: 1}
	}
	aside := func(name, reason string, columns map[string]any) mappedRow {
		return mappedRow{name: name, columns: columns, reason: reason}
	}
	with := func(r mappedRow, headers map[string]string) mappedRow {
		r.headers = headers
		return r
	}
	return []mappedRow{
		with(row("as usual", nil), map[string]string{
			"ce_id": "ID", "ce_type": "Placed", "ce_source": "order", "ce_subject": "7", "ce_specversion": "1.0", "content-type": "application/json",
			"x-tenant": "acme", "from": "shop", "event_id": "-",
		}),
		with(row("names of ours", map[string]any{"metadata": `{"ce_id": "evil", "position": "evil", "origin": "evil", "from": "evil", "ce_sequence": "evil", "event_id": "free"}`}),
			map[string]string{"ce_id": "ID", "position": "-", "from": "shop", "event_id": "free"}),
		with(row("control characters", map[string]any{"metadata": `{"a": "x\r\nSet-Cookie: y", "b\r\nc": "d"}`}), map[string]string{"a": "x\r\nSet-Cookie: y", "b\r\nc": "-"}),
		with(row("an invalid trace", map[string]any{"metadata": `{"traceparent": "00-evil", "tracestate": "a=b", "baggage": "c=d"}`}),
			map[string]string{"traceparent": "-", "tracestate": "-", "baggage": "c=d"}),
		with(row("a trace", map[string]any{"metadata": `{"traceparent": "` + parent + `", "tracestate": "a=b"}`}), map[string]string{"traceparent": parent, "tracestate": "a=b"}),
		with(row("nested metadata", map[string]any{"metadata": `{"a": {"b": [1, "}"]}, "c": 1.10}`}), map[string]string{"a": `{"b": [1, "}"]}`, "c": "1.10"}),
		with(row("metadata of 100 kB", map[string]any{"metadata": `{"a": "` + long + `"}`}), map[string]string{"a": long}),
		aside("an array for metadata", "invalid_metadata", map[string]any{"metadata": `[1]`}),
		aside("a number for metadata", "invalid_metadata", map[string]any{"metadata": `1`}),
		{name: "an empty key", columns: map[string]any{"tenant": ""}, key: "", partition: 1, headers: map[string]string{"x-tenant": ""}},
		{name: "another partition", columns: map[string]any{"shard": 3}, key: "acme", partition: 3},
		aside("a partition that is not there", "invalid_partition", map[string]any{"shard": 4}),
		aside("a partition below 0", "invalid_partition", map[string]any{"shard": -1}),
		aside("no partition", "null_partition", map[string]any{"shard": nil}),
		aside("no type", "null_event_type", map[string]any{"event_type": nil}),
		aside("a topic with a slash", "invalid_topic", map[string]any{"aggregate_type": "a/c"}),
		aside("a topic with a quote", "invalid_topic", map[string]any{"aggregate_type": `a"`}),
		aside("a topic with an emoji", "invalid_topic", map[string]any{"aggregate_type": "😀"}),
		aside("no aggregate type", "null_aggregate_type", map[string]any{"aggregate_type": nil}),
		row("a type with a topic of its own", map[string]any{"aggregate_type": "a b/😀"}),
		{name: "a type that is passed over", columns: map[string]any{"event_type": "Noise"}, filtered: true},
		{name: "a row that the publication leaves out", columns: map[string]any{"aggregate_id": 13}, filtered: true},
		{name: "created at no time", columns: map[string]any{"created_at": nil}, key: "acme", partition: 1, committed: true},
		{name: "created at the end of time", columns: map[string]any{"created_at": "infinity"}, key: "acme", partition: 1, committed: true},
		{name: "created before 1970", columns: map[string]any{"created_at": "1969-07-20 20:17+00"}, key: "acme", partition: 1, committed: true},
		aside("created in a past that the topic refuses", "invalid_timestamp", map[string]any{"created_at": "1999-12-31 23:59+00"}),
		aside("created in a future that the topic refuses", "invalid_timestamp", map[string]any{"created_at": "3000-01-01 00:00+00"}),
	}
}

// TestContentOfAnyMapping runs a relay with a setting for everything, on rows with
// content that nobody expects: what can be published is, as the settings say, the
// rest is set aside for a reason of its own, and nothing stops.
//
// Behaviours: C2, C4, C8
func TestContentOfAnyMapping(t *testing.T) {
	o := bareOutbox(t, `CREATE TABLE outbox_events (id bigint PRIMARY KEY, aggregate_type text, aggregate_id int, event_type text, payload json,
		metadata jsonb, created_at timestamptz, tenant text NOT NULL, shard int)`)
	o.config.topicSettings = map[string]string{"message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": "86400000"}
	o.createTopic("order")
	o.mustCommand("init")
	o.filterPublication("aggregate_id <> 13")
	created := time.Now().Add(-time.Minute).Truncate(time.Millisecond).UTC()
	rows := mappedRows()
	if o.pg.Version() < rowFilters {
		rows = slices.DeleteFunc(rows, func(r mappedRow) bool { return r.columns["aggregate_id"] == 13 })
	}
	for i, r := range rows {
		values := map[string]any{
			"id": i, "aggregate_type": "order", "aggregate_id": 7, "event_type": "Placed", "payload": `{"a" : 1.10}`, "metadata": nil,
			"created_at": created.Format("2006-01-02 15:04:05.999999+00"), "tenant": "acme", "shard": 1,
		}
		for name, value := range r.columns {
			values[name] = value
		}
		o.exec(`INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, metadata, created_at, tenant, shard)
			VALUES ($1, $2, $3, $4, $5::text::json, $6::text::jsonb, $7::text::timestamptz, $8, $9)`, values["id"], values["aggregate_type"], values["aggregate_id"],
			values["event_type"], values["payload"], values["metadata"], values["created_at"], values["tenant"], values["shard"])
	}
	r := o.start("--headers", "cloudevents", "--key", "column:tenant", "--partition-by", "number:shard", "--header", "tenant:x-tenant", "--static-header", "from=shop",
		"--timestamp", "created_at", "--exclude-types", "Noise", "--topic-map", "a b/😀="+o.topic("order"))
	o.awaitDrained()
	r.stop()
	published := make(map[string]harness.Record)
	for _, record := range o.records() {
		published[header(t, record, "ce_id")] = record
	}
	reasons := make(map[string]string)
	letters, err := harness.Query[string](t.Context(), o.pg, o.database, "SELECT event_id || ' ' || reason FROM outbox_dead_letters")
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range letters {
		id, reason, _ := strings.Cut(letter, " ")
		reasons[id] = reason
	}
	for i, row := range rows {
		record, sent := published[fmt.Sprint(i)]
		if reason := reasons[fmt.Sprint(i)]; reason != row.reason || sent == (row.filtered || row.reason != "") {
			t.Errorf("%s: published %t, set aside for %q, want %q", row.name, sent, reason, row.reason)
		} else if sent {
			row.check(t, record, fmt.Sprint(i), created)
		}
	}
}

// check compares a record with what should have become of the row.
func (r mappedRow) check(t *testing.T, record harness.Record, id string, created time.Time) {
	t.Helper()
	if string(record.Key) != r.key || record.Partition != r.partition || string(record.Value) != `{"a" : 1.10}` {
		t.Errorf("%s: got key %q and value %q in partition %d, want key %q in partition %d", r.name, record.Key, record.Value, record.Partition, r.key, r.partition)
	}
	for name, want := range r.headers {
		if want == "ID" {
			want = id
		}
		if got, found := record.Header(name); found == (want == "-") || found && got != want {
			t.Errorf("%s: header %q is %.100q, want %.100q", r.name, name, got, want)
		}
	}
	if got := record.Timestamp.UnixMilli() == created.UnixMilli(); got == r.committed {
		t.Errorf("%s: the timestamp is %s, created at %s", r.name, record.Timestamp, created)
	}
}

// TestSlotPassesOverWhatIsFiltered commits nothing but rows that the publication's
// filter or the lists of event types leave out: the slot moves past each kind by
// itself, nothing is published, and what we passed over is counted. The start says
// that there is a filter.
func TestSlotPassesOverWhatIsFiltered(t *testing.T) {
	o := bareOutbox(t, "", "order")
	o.mustCommand("init")
	o.filterPublication("aggregate_id <> 'filtered'")
	r := o.start("--include-types", "Placed,Paid", "--exclude-types", "Noise", serving[0], serving[1])
	insert := func(aggregate, eventType string, rows int) {
		o.exec(fmt.Sprintf(`INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
			SELECT 'order', '%s', '%s', '{}' FROM generate_series(1, %d)`, aggregate, eventType, rows))
		o.awaitDrained()
	}
	filters := o.pg.Version() >= rowFilters
	if filters {
		insert("filtered", "Placed", 50)
	}
	insert("a", "Noise", 30)
	insert("a", "Unknown", 20)
	if held := len(o.records()); held != 0 {
		t.Errorf("%d rows that are filtered were published", held)
	}
	if n, found := r.metric("outbox_cdc_events_filtered_total"); !found || n != 50 {
		t.Errorf("%v rows were counted as passed over, want the 50 that the server has sent", n)
	}
	insert("a", "Placed", 1)
	insert("a", "Paid", 1)
	r.stop()
	if held := len(o.records()); held != 2 {
		t.Errorf("the topic holds %d records, want the 2 that no filter concerns", held)
	}
	said := 0
	for _, line := range r.log("") {
		if strings.Contains(line.text("msg"), "sends only rows of table") && line.text("level") == "WARN" {
			said++
		}
	}
	if filters != (said == 1) {
		t.Errorf("the filter of the publication was told %d times; there is one: %t", said, filters)
	}
}

// rowFilters is the first version of PostgreSQL whose publications have filters.
const rowFilters = 15

// filterPublication has the publication leave out rows, where it can.
func (o *outbox) filterPublication(condition string) {
	o.t.Helper()
	if o.pg.Version() >= rowFilters {
		o.exec("ALTER PUBLICATION " + o.publication + " SET TABLE outbox_events WHERE (" + condition + ")")
	}
}

// TestRefusalOfColumnsThatSettingsName starts a relay whose settings name columns
// that will not do. Each is named with its setting before anything is streamed.
func TestRefusalOfColumnsThatSettingsName(t *testing.T) {
	o := bareOutbox(t, tableWith("jsonb")+"; ALTER TABLE public.outbox_events ADD tenant text")
	o.mustCommand("init")
	for _, c := range []struct {
		flags []string
		texts []string
	}{
		{[]string{"--header", "trace"}, []string{"no column trace, which --header names", "add it to the table"}},
		{[]string{"--topic", "x.{column:tenent}"}, []string{"no column tenent, which --topic names"}},
		{[]string{"--partition-by", "number:shard", "--key", "column:k"}, []string{"no column k, which --key names", "no column shard, which --partition-by names"}},
		{[]string{"--timestamp", "created_at"}, []string{"no column created_at, which --timestamp names"}},
		{[]string{"--key", "column:tenant"}, []string{`column "tenant" of table "public"."outbox_events" can be NULL`, "--key cannot be column:tenant", "SET NOT NULL"}},
	} {
		o.launch(c.flags...).expectExit(patience, exitUsage, c.texts...)
	}
	o.exec("ALTER TABLE outbox_events ADD created_at int")
	o.launch("--timestamp", "created_at").expectExit(patience, exitUsage,
		`column "created_at" of table "public"."outbox_events" is of type integer`, "--timestamp needs one of timestamptz, timestamp, date, int8", "or correct --timestamp")
}

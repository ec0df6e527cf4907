package publisher

import (
	"slices"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// decoded is a row of a table as the stream brings it.
func decoded(t *testing.T, table decoder.Table, columns []column, row []any) record {
	t.Helper()
	tx := transaction{commit: 0x16b3748, end: 0x16b3778, at: time.Date(2026, 2, 28, 12, 0, 1, 500_250_000, time.UTC)}
	d := decoder.New([]decoder.Table{table})
	chunk := decoder.NewPool().Get()
	for _, message := range [][]byte{relationOf(table.Schema, table.Name, columns...), beginMessage(tx), rowMessage(row...)} {
		if err := d.Decode(message, chunk); err != nil {
			t.Fatal(err)
		}
	}
	return record{row: chunk.Entries[0].Row, position: chunk.Entries[0].Position}
}

// The origin of a configuration that has not changed must not change either: what
// a former version wrote would not be recognised.
func TestOriginStays(t *testing.T) {
	cfg := testConfig(nil)
	in := Session{
		SystemID: "7000", Slot: "test", Stream: `proto_version=1 publication_names="outbox_cdc"`,
		Tables: []decoder.Table{{OID: 16384, Schema: "public", Name: "outbox_events"}, {OID: 16390, Schema: "tenant", Name: "outbox_events"}},
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"the defaults", func(*Config) {}, "e8ddc5bc6e610e09"},
		{"one topic", func(c *Config) { c.Topic = "orders" }, "709744b304396a25"},
		{"every placeholder", func(c *Config) { c.Topic = "{aggregate_type}.{aggregate_id}.{event_type}" }, "2fd0c5e0e921f456"},
		{"another key", func(c *Config) { c.Key = KeyAggregateID }, "c6e504187ab1ccbe"},
		{"by key", func(c *Config) { c.PartitionBy = PartitionByKey }, "576ba4d1a548dbca"},
		{"spread", func(c *Config) { c.PartitionBy = PartitionByNone }, "93808e7f80a55234"},
	} {
		tt.change(&cfg)
		r, err := newRouter(cfg, in)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.originOf(3)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		cfg = testConfig(nil)
	}
}

func TestTopicOfARow(t *testing.T) {
	columns := []column{{"id", 20}, {"aggregate_type", 25}, {"aggregate_id", 25}, {"event_type", 25}, {"payload", 3802}, {"tenant", 25}, {"key", 17}}
	row := []any{"1", "order", "o-1", "OrderPlaced", "{}", "acme", `\x6f6e65`}
	without := func(column int) []any {
		changed := slices.Clone(row)
		changed[column] = nil
		return changed
	}
	for _, tt := range []struct {
		topic  string
		row    []any
		want   string
		reason Reason
	}{
		{topic: "orders", row: row, want: "orders"},
		{topic: "outbox.event.{aggregate_type}", row: row, want: "outbox.event.order"},
		{topic: "{aggregate_type}.{event_type}-{aggregate_id}", row: row, want: "order.OrderPlaced-o-1"},
		{topic: "{schema}.{table}", row: row, want: "sales.outbox"},
		{topic: "{column:tenant}_{column:key}", row: row, want: "acme_one"},
		{topic: "{column:tenant}_{column:nothing}", row: row, want: "acme_", reason: ReasonInvalidTopic},
		{topic: "x.{column:tenant}", row: without(5), want: "x.", reason: ReasonInvalidTopic},
		{topic: "x.{aggregate_type}", row: without(1), want: "x.", reason: ReasonNoAggregateType},
		{topic: "x.{event_type}", row: without(3), want: "x.", reason: ReasonInvalidTopic},
		{topic: "orders", row: without(1), want: "orders"},
	} {
		t.Run(tt.topic, func(t *testing.T) {
			cfg := testConfig(nil)
			cfg.Topic = tt.topic
			r, err := newRouter(cfg, Session{})
			if err != nil {
				t.Fatal(err)
			}
			e := decoded(t, decoder.Table{Schema: "sales", Name: "outbox"}, columns, tt.row)
			topic, why := r.topic(r.read(e.row))
			if string(topic) != tt.want || (why != nil || tt.reason != "") && (why == nil || why.Reason != tt.reason) {
				t.Errorf("got %q, %v, want %q, %q", topic, why, tt.want, tt.reason)
			}
		})
	}
}

func TestTemplatesThatAreWrong(t *testing.T) {
	for _, topic := range []string{
		"", ".", "..", "a b", "größe", "{", "}", "{}", "{agregate_type}", "{column:}", "{column:a", "a/{table}", "{payload}", string(make([]byte, 250)),
	} {
		faults := 0
		if parseTemplate(func(string, ...any) { faults++ }, "--topic", topic); faults != 1 {
			t.Errorf("%q is taken for the template of a topic", topic)
		}
	}
}

// Neither routing nor the headers of a record allocate anything for a row.
func TestPlanDoesNotAllocate(t *testing.T) {
	table := decoder.Table{Schema: "public", Name: "events", Mapping: decoder.Mapping{IDColumns: []string{"stream_id", "stream_version"}, AggregateID: "stream_id", Payload: "event_data"}}
	e := decoded(t, table,
		[]column{{"stream_id", 25}, {"stream_version", 20}, {"event_type", 25}, {"event_data", 17}, {"metadata", 3802}, {"tenant", 25}},
		[]any{"order-1", "3", "OrderPlaced", `\x00ff`, `{"a": 1, "b": {"c": []}, "d\u00e9": "e\t", "position": "not ours"}`, "acme"})
	cfg := testConfig(nil)
	cfg.Topic = "{schema}.{aggregate_type}.{column:tenant}"
	r, err := newRouter(cfg, Session{})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		v := r.read(e.row)
		if topic, why := r.topic(v); string(topic) != "public.events.acme" || why != nil || r.judge(v) != nil {
			t.Errorf("got %q, %v, %v", topic, why, r.judge(v))
		}
		r.partition(v, e.position, 3)
	}); n > 0 {
		t.Errorf("routing: %v allocations, want none", n)
	}
	w := &headerWriter{values: values{plans: r.plans}, origin: []byte("origin")}
	if n := testing.AllocsPerRun(100, func() {
		w.of(&e)
		if string(w.key()) != "order-1/3" || string(w.get(&w.plan.payload)) != "\x00\xff" {
			t.Errorf("got key %q and value %q", w.key(), w.get(&w.plan.payload))
		}
	}); n > 0 {
		t.Errorf("headers: %v allocations, want none", n)
	}
	var got []string
	for _, h := range w.headers {
		got = append(got, string(h.Key)+"="+string(h.Value))
	}
	want := []string{
		"event_id=order-1/3", "event_type=OrderPlaced", "aggregate_type=events", "aggregate_id=order-1", "content-type=application/octet-stream",
		"position=" + e.position.String(), "origin=origin", "a=1", `b={"c": []}`, "dé=e\t",
	}
	if !slices.Equal(got, want) {
		t.Errorf("headers:\n got %q\nwant %q", got, want)
	}
}

package publisher

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Every setting that has a say in where an event goes, or whether it goes at all,
// is part of the origin. Otherwise what another setting has published could pass
// for the proof that an event is there which is not.
func TestOriginHoldsAllOfTheRouting(t *testing.T) {
	base, in := testConfig(nil), Session{Tables: []decoder.Table{{OID: 1, Schema: "public", Name: "outbox", Mapping: decoder.Mapping{ID: "id"}}}}
	origin := func(cfg Config, in Session) string {
		r, err := newRouter(cfg, in)
		if err != nil {
			t.Fatal(err)
		}
		return string(r.originOf(3))
	}
	want := origin(base, in)
	values := map[string]any{
		"Topic": "orders", "TopicMap": []string{"order=orders"}, "Key": Key("column:tenant"), "PartitionBy": PartitionBy("number:tenant"),
		"IncludeTypes": []string{"OrderPlaced"}, "ExcludeTypes": []string{"OrderPlaced"},
		"Tables": []TableRouting{{Table: `"public"."outbox"`, Key: "column:tenant"}},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Routing]()) {
		changed, ok := values[field.Name]
		if !ok {
			t.Errorf("there is no other value of %s to try", field.Name)
			continue
		}
		cfg := base
		reflect.ValueOf(&cfg.Routing).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(changed))
		if origin(cfg, in) == want {
			t.Errorf("%s %v does not change the origin", field.Name, changed)
		}
	}
	notRouting := []string{"Payload", "Metadata", "CreatedAt"}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[decoder.Mapping]()) {
		other := Session{Tables: slices.Clone(in.Tables)}
		value := reflect.ValueOf(&other.Tables[0].Mapping).Elem().FieldByIndex(field.Index)
		switch value.Kind() {
		case reflect.Slice:
			value.Set(reflect.ValueOf([]string{"a", "b"}))
		case reflect.Map:
			value.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		default:
			value.SetString("other")
		}
		if changed := origin(base, other) != want; changed == slices.Contains(notRouting, field.Name) {
			t.Errorf("another column for %s changes the origin: %t", field.Name, changed)
		}
	}
	renamed := Session{Tables: slices.Clone(in.Tables)}
	renamed.Tables[0].Name = "other"
	if origin(base, renamed) == want {
		t.Error("another name of a table whose name may be in the topic's does not change the origin")
	}
}

// What a table has of its own is part of the origin if it is not what all tables
// have; and so is then the name of the table, if the topic has it.
func TestOriginHoldsTheRoutingOfATable(t *testing.T) {
	const table = `"public"."outbox"`
	base := testConfig(nil)
	origin := func(name string, tables ...TableRouting) string {
		cfg := base
		cfg.Tables = tables
		r, err := newRouter(cfg, Session{Tables: []decoder.Table{{OID: 1, Schema: "public", Name: name}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(r.originOf(3))
	}
	common := origin("outbox")
	for name, same := range map[string]TableRouting{
		"nothing of its own":     {Table: table},
		"what all tables have":   {Table: table, Topic: base.Topic, Key: base.Key, PartitionBy: base.PartitionBy},
		"a table not streamed":   {Table: `"public"."other"`, Topic: "orders"},
		"the place of the entry": {Table: table, Place: "relay.yaml:7"},
	} {
		if origin("outbox", same) != common {
			t.Errorf("%s changes the origin", name)
		}
	}
	seen := map[string]string{common: "none"}
	for name, other := range map[string]TableRouting{
		"a topic":          {Table: table, Topic: "orders"},
		"another topic":    {Table: table, Topic: "{table}"},
		"a key":            {Table: table, Key: KeyAggregateID},
		"a partition":      {Table: table, PartitionBy: PartitionByKey},
		"a topic and key":  {Table: table, Topic: "orders", Key: KeyAggregateID},
		"all three of one": {Table: table, Topic: "orders", Key: KeyAggregateID, PartitionBy: PartitionByKey},
	} {
		got := origin("outbox", other)
		if before, twice := seen[got]; twice {
			t.Errorf("%s has the origin of %s", name, before)
		}
		seen[got] = name
	}
	if origin("a", TableRouting{Table: `"public"."a"`, Topic: "{table}"}) == origin("b", TableRouting{Table: `"public"."b"`, Topic: "{table}"}) {
		t.Error("another name of a table whose name is in its topic's does not change the origin")
	}
}

func TestFaultsOfTheRouting(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string // nothing for none
	}{
		{"all that is possible", func(c *Config) {
			c.Topic, c.Key, c.PartitionBy = "{schema}.{column:a b}", "column:x", "number:y"
			c.TopicMap, c.IncludeTypes, c.ExcludeTypes = []string{"order=orders", "=nothing"}, []string{"a"}, []string{"b"}
		}, ""},
		{"a placeholder that is none", func(c *Config) { c.Topic = "x.{tenant}" },
			`--topic may name {aggregate_type}, {aggregate_id}, {event_type}, {schema}, {table} and {column:NAME}, got "x.{tenant}"`},
		{"a key that is none", func(c *Config) { c.Key = "tenant" }, `--key must be one of event_id, aggregate_id, column:NAME, got "tenant"`},
		{"a key without a column", func(c *Config) { c.Key = "column:" }, `--key must be one of event_id, aggregate_id, column:NAME, got "column:"`},
		{"a number as key", func(c *Config) { c.Key = "number:a" }, `--key must be one of event_id, aggregate_id, column:NAME, got "number:a"`},
		{"a partition by something", func(c *Config) { c.PartitionBy = "number" },
			`--partition-by must be one of aggregate_id, key, none, column:NAME, number:NAME, got "number"`},
		{"a map without a topic", func(c *Config) { c.TopicMap = []string{"order"} },
			`--topic-map must be AGGREGATE_TYPE=TOPIC, with a topic that Kafka accepts, got "order"`},
		{"a map to an impossible topic", func(c *Config) { c.TopicMap = []string{"order=a/b"} },
			`--topic-map must be AGGREGATE_TYPE=TOPIC, with a topic that Kafka accepts, got "order=a/b"`},
		{"a map twice", func(c *Config) { c.TopicMap = []string{"order=a", "order=a"} },
			`--topic-map must name each aggregate type once, got "order" twice`},
		{"a table with nothing right", func(c *Config) {
			c.Tables = []TableRouting{{Table: `"public"."a"`, Topic: "a b", Key: "id", PartitionBy: "x", Place: "relay.yaml:7"}}
		}, `topic in relay.yaml:7 must hold letters, digits, dot, underscore, hyphen and {placeholders}, got "a b"
key in relay.yaml:7 must be one of event_id, aggregate_id, column:NAME, got "id"
partition_by in relay.yaml:7 must be one of aggregate_id, key, none, column:NAME, number:NAME, got "x"`},
		{"a fault of all tables, once", func(c *Config) {
			c.Key, c.Tables = "id", []TableRouting{{Table: `"public"."a"`, Topic: "a", Place: "relay.yaml:7"}}
		}, `--key must be one of event_id, aggregate_id, column:NAME, got "id"`},
		{"a type in and out", func(c *Config) { c.IncludeTypes, c.ExcludeTypes = []string{"a", "b"}, []string{"b"} },
			`--include-types and --exclude-types must not both hold "b"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig([]string{"localhost:9092"})
			tt.change(&cfg)
			got := ""
			if err := cfg.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// routed is where a row goes.
type routed struct {
	topic     string
	partition int32
	key       string
	reason    Reason
}

// Behaviours: C8
func TestRoutingOfARow(t *testing.T) {
	const partitions = 4
	columns := []column{
		{"id", 20}, {"aggregate_type", 25}, {"aggregate_id", 25}, {"event_type", 25}, {"payload", 3802}, {"tenant", 25}, {"shard", 23}, {"raw", 17},
	}
	hash := func(s string) int32 { return partitionOf([]byte(s), partitions) }
	for _, tt := range []struct {
		name   string
		change func(*Config)
		row    map[string]any
		want   routed
	}{
		{"the defaults", func(*Config) {}, nil, routed{"outbox.event.order", hash("o-1"), "7", ""}},
		{"a mapped type", func(c *Config) { c.TopicMap = []string{"order=orders.v2", "x=y"} }, nil, routed{"orders.v2", hash("o-1"), "7", ""}},
		{"a type that is not mapped", func(c *Config) { c.TopicMap = []string{"Order=orders.v2"} }, nil, routed{"outbox.event.order", hash("o-1"), "7", ""}},
		{"a table with all of its own", func(c *Config) {
			c.Tables = []TableRouting{{Table: `"public"."outbox"`, Topic: "{table}.{column:tenant}", Key: "aggregate_id", PartitionBy: "column:tenant"}}
		}, nil, routed{"outbox.acme", hash("acme"), "o-1", ""}},
		{"a table with a key of its own that is NULL", func(c *Config) {
			c.Tables = []TableRouting{{Table: `"public"."outbox"`, Key: "column:tenant", PartitionBy: "key"}}
		}, map[string]any{"tenant": nil}, routed{"outbox.event.order", -1, "", ReasonNoKey}},
		{"another table with all of its own", func(c *Config) {
			c.Tables = []TableRouting{{Table: `"public"."other"`, Topic: "others", Key: "aggregate_id", PartitionBy: "key"}}
		}, nil, routed{"outbox.event.order", hash("o-1"), "7", ""}},
		{"a mapped type of a table with a topic of its own", func(c *Config) {
			c.TopicMap, c.Tables = []string{"order=orders.v2"}, []TableRouting{{Table: `"public"."outbox"`, Topic: "others"}}
		}, nil, routed{"orders.v2", hash("o-1"), "7", ""}},
		{"an empty type", func(*Config) {}, map[string]any{"aggregate_type": ""}, routed{"outbox.event.", hash("o-1"), "7", ""}},
		{"an empty type that is mapped", func(c *Config) { c.TopicMap = []string{"=others"} }, map[string]any{"aggregate_type": ""}, routed{"others", hash("o-1"), "7", ""}},
		{"a column as key", func(c *Config) { c.Key = "column:tenant" }, nil, routed{"outbox.event.order", hash("o-1"), "acme", ""}},
		{"bytes as key", func(c *Config) { c.Key, c.PartitionBy = "column:raw", "key" }, nil, routed{"outbox.event.order", hash("\x00\xff"), "\x00\xff", ""}},
		{"an empty key", func(c *Config) { c.Key, c.PartitionBy = "column:tenant", "key" }, map[string]any{"tenant": ""}, routed{"outbox.event.order", hash(""), "", ""}},
		{"a key that is NULL", func(c *Config) { c.Key = "column:tenant" }, map[string]any{"tenant": nil}, routed{"outbox.event.order", hash("o-1"), "", ReasonNoKey}},
		{"the partition by a column", func(c *Config) { c.PartitionBy = "column:tenant" }, nil, routed{"outbox.event.order", hash("acme"), "7", ""}},
		{"the partition by a column that is NULL", func(c *Config) { c.PartitionBy = "column:tenant" }, map[string]any{"tenant": nil},
			routed{"outbox.event.order", -1, "7", ReasonNoPartition}},
		{"the partition by the key", func(c *Config) { c.PartitionBy = "key" }, nil, routed{"outbox.event.order", hash("7"), "7", ""}},
		{"the partition by a key that is NULL", func(c *Config) { c.Key, c.PartitionBy = "column:tenant", "key" }, map[string]any{"tenant": nil},
			routed{"outbox.event.order", -1, "", ReasonNoKey}},
		{"the number of the partition", func(c *Config) { c.PartitionBy = "number:shard" }, nil, routed{"outbox.event.order", 3, "7", ""}},
		{"the number of no partition", func(c *Config) { c.PartitionBy = "number:shard" }, map[string]any{"shard": 4},
			routed{"outbox.event.order", -1, "7", ReasonInvalidPartition}},
		{"a number below 0", func(c *Config) { c.PartitionBy = "number:shard" }, map[string]any{"shard": -1},
			routed{"outbox.event.order", -1, "7", ReasonInvalidPartition}},
		{"a number that overflows", func(c *Config) { c.PartitionBy = "number:shard" }, map[string]any{"shard": "18446744073709551617"},
			routed{"outbox.event.order", -1, "7", ReasonInvalidPartition}},
		{"no number", func(c *Config) { c.PartitionBy = "number:tenant" }, nil, routed{"outbox.event.order", -1, "7", ReasonInvalidPartition}},
		{"an empty number", func(c *Config) { c.PartitionBy = "number:tenant" }, map[string]any{"tenant": ""}, routed{"outbox.event.order", -1, "7", ReasonInvalidPartition}},
		{"a number that is NULL", func(c *Config) { c.PartitionBy = "number:shard" }, map[string]any{"shard": nil},
			routed{"outbox.event.order", -1, "7", ReasonNoPartition}},
		{"no id", func(*Config) {}, map[string]any{"id": nil}, routed{"outbox.event.order", hash("o-1"), "", ReasonNoID}},
		{"no aggregate", func(*Config) {}, map[string]any{"aggregate_id": nil}, routed{"outbox.event.order", -1, "7", ReasonNoAggregateID}},
		{"an empty aggregate", func(*Config) {}, map[string]any{"aggregate_id": ""}, routed{"outbox.event.order", hash(""), "7", ""}},
		{"no event type", func(*Config) {}, map[string]any{"event_type": nil}, routed{"outbox.event.order", hash("o-1"), "7", ""}},
		{"a topic of dots", func(c *Config) { c.Topic = "{event_type}" }, map[string]any{"event_type": ".."}, routed{"..", -1, "", ReasonInvalidTopic}},
		{"a topic of one dot", func(c *Config) { c.Topic = "{event_type}" }, map[string]any{"event_type": "."}, routed{".", -1, "", ReasonInvalidTopic}},
		{"a topic of nothing", func(c *Config) { c.Topic = "{event_type}" }, map[string]any{"event_type": ""}, routed{"", -1, "", ReasonInvalidTopic}},
		{"the longest topic", func(c *Config) { c.Topic = "{event_type}" }, map[string]any{"event_type": strings.Repeat("x", 249)},
			routed{strings.Repeat("x", 249), hash("o-1"), "7", ""}},
		{"a topic too long", func(c *Config) { c.Topic = "{event_type}" }, map[string]any{"event_type": strings.Repeat("x", 250)},
			routed{strings.Repeat("x", 250), -1, "", ReasonInvalidTopic}},
		{"a topic with a slash", func(*Config) {}, map[string]any{"aggregate_type": "a/b"}, routed{"outbox.event.a/b", -1, "", ReasonInvalidTopic}},
		{"a topic with a blank", func(*Config) {}, map[string]any{"aggregate_type": "a b"}, routed{"outbox.event.a b", -1, "", ReasonInvalidTopic}},
		{"a topic with a quote", func(*Config) {}, map[string]any{"aggregate_type": `a"b`}, routed{`outbox.event.a"b`, -1, "", ReasonInvalidTopic}},
		{"a topic with an emoji", func(*Config) {}, map[string]any{"aggregate_type": "😀"}, routed{"outbox.event.😀", -1, "", ReasonInvalidTopic}},
		{"a topic with a line break", func(*Config) {}, map[string]any{"aggregate_type": "a\n"}, routed{"outbox.event.a\n", -1, "", ReasonInvalidTopic}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			row := map[string]any{
				"id": 7, "aggregate_type": "order", "aggregate_id": "o-1", "event_type": "OrderPlaced", "payload": "{}", "tenant": "acme", "shard": 3, "raw": `\x00ff`,
			}
			for name, value := range tt.row {
				row[name] = value
			}
			var values []any
			for _, c := range columns {
				values = append(values, row[c.name])
			}
			cfg := testConfig(nil)
			tt.change(&cfg)
			if got := routeOf(t, cfg, decoded(t, decoder.Table{Schema: "public", Name: "outbox"}, columns, values), partitions); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// routeOf routes an event as admit does.
func routeOf(t *testing.T, cfg Config, e record, partitions int) routed {
	t.Helper()
	r, err := newRouter(cfg, Session{})
	if err != nil {
		t.Fatal(err)
	}
	v := r.read(e.row)
	topic, why := r.topic(v)
	if why != nil {
		return routed{topic: string(topic), partition: -1, reason: why.Reason}
	}
	got := routed{topic: string(topic), key: string(v.key())}
	verdict := r.judge(v)
	if verdict == nil || !verdict.nowhere {
		got.partition, why = r.partition(v, e.position, partitions)
	}
	if verdict == nil {
		verdict = why
	}
	if verdict != nil {
		got.reason = verdict.Reason
		if verdict.nowhere {
			got.partition = -1
		}
	}
	return got
}

func TestEventTypesThatArePublished(t *testing.T) {
	for _, tt := range []struct {
		include, exclude []string
		published        []any // of a, b, "" and NULL
	}{
		{nil, nil, []any{"a", "b", "", nil}},
		{[]string{"a", "c"}, nil, []any{"a"}},
		{[]string{"a", ""}, nil, []any{"a", ""}},
		{nil, []string{"a"}, []any{"b", "", nil}},
		{[]string{"a"}, []string{"b"}, []any{"a"}},
	} {
		r, err := Routing{Topic: "x", Key: KeyEventID, PartitionBy: PartitionByKey, IncludeTypes: tt.include, ExcludeTypes: tt.exclude}.read()
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for _, eventType := range []any{"a", "b", "", nil} {
			var text []byte
			if eventType != nil {
				text = []byte(eventType.(string))
			}
			if r.published(text) {
				got = append(got, eventType)
			}
		}
		if !slices.Equal(got, tt.published) {
			t.Errorf("with %q and without %q: got %q, want %q", tt.include, tt.exclude, got, tt.published)
		}
	}
}

// What is filtered is confirmed and takes its place in the order: the others have
// the positions that they have without a filter. What names a partition that is
// none is set aside.
func TestFiltersAndNumbers(t *testing.T) {
	fake := newFake(t, kfake.SeedTopics(2, testTopic))
	h := &history{}
	var events []event
	for n := range 10 {
		e := order(fmt.Sprint("e", n), fmt.Sprint(n%3)) // the topic has partitions 0 and 1
		e.eventType = [...]string{"OrderPlaced", "Noise"}[n%2]
		events = append(events, e)
	}
	h.commit(events...)
	h.commit(events[1]) // nothing but noise
	cfg := testConfig(fake.ListenAddrs())
	cfg.PartitionBy, cfg.ExcludeTypes = "number:aggregate_id", []string{"Noise"}
	letters := &letters{}
	if err := h.publish(testContext(t), t, newTestPublisher(t, cfg), letters); err != nil {
		t.Fatal(err)
	}
	if h.slot() != h.end() {
		t.Errorf("slot: got confirmed to %s, want %s", h.slot(), h.end())
	}
	tx := h.transactions[0]
	at := func(n int) decoder.Position {
		return decoder.Position{CommitLSN: tx.commit, Index: uint32(n), CommitTime: tx.at.UnixMicro()}
	}
	got := make(map[int32][]string)
	for partition, records := range readAll(t, fake.ListenAddrs(), testTopic, 3) {
		for _, r := range records {
			got[partition] = append(got[partition], string(r.Key)+" "+headerTexts(r)[5])
		}
	}
	want := map[int32][]string{
		0: {"e0 position=" + at(0).String(), "e6 position=" + at(6).String()},
		1: {"e4 position=" + at(4).String()},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	aside := map[decoder.Position]Reason{at(2): ReasonInvalidPartition, at(8): ReasonInvalidPartition}
	if got := letters.reasons(); !reflect.DeepEqual(got, aside) {
		t.Errorf("set aside: got %v, want %v", got, aside)
	}
}

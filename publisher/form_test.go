package publisher

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// sent is a record as a consumer sees it.
type sent struct {
	topic      string
	partition  int32
	key, value []byte
	headers    []string // NAME=VALUE
	timestamp  time.Time
}

func (s sent) header(name string) (string, bool) {
	for _, h := range s.headers {
		if value, found := strings.CutPrefix(h, name+"="); found {
			return value, true
		}
	}
	return "", false
}

// sendAs routes and encodes an event, and reads it back, in a topic of four
// partitions.
func sendAs(t *testing.T, cfg Config, e record) (sent, *Poison) {
	t.Helper()
	r, err := newRouter(cfg, Session{SystemID: "7000", Slot: "test", Stream: "pub"})
	if err != nil {
		t.Fatal(err)
	}
	const partitions = 4
	v := r.read(e.row)
	topic, why := r.topic(v)
	if why != nil {
		return sent{}, why
	}
	if why := r.judge(v); why != nil {
		return sent{}, why
	}
	partition, why := r.partition(v, e.position, partitions)
	if why != nil {
		return sent{}, why
	}
	sh := shipment{topic: string(topic), id: partition, records: []record{e}, stamp: stamp{how: cfg.Timestamp, sent: sentAt.UnixMicro()}}
	if cfg.PositionHeaders {
		sh.origin = r.originOf(partitions)
	}
	encoded, err := newEncoder(r.plans, sarama.CompressionNone).encode([]shipment{sh})
	if err != nil {
		t.Fatal(err)
	}
	batch := checkedBatch(t, topicsOf(t, encoded)[0].Partitions[0].Records)
	var read kmsg.Record
	if err := read.ReadFrom(batch.Records); err != nil {
		t.Fatal(err)
	}
	got := sent{
		topic: string(topic), partition: partition, key: read.Key, value: read.Value,
		timestamp: time.UnixMilli(batch.FirstTimestamp + read.TimestampDelta64).UTC(),
	}
	for _, h := range read.Headers {
		got.headers = append(got.headers, h.Key+"="+string(h.Value))
	}
	return got, nil
}

// sentAt is when sendAs sends.
var sentAt = time.Date(2026, 2, 28, 12, 0, 9, 0, time.UTC)

// formed is a row of a table with a payload and a time of any type.
type formed struct {
	payloadType uint32
	payload     any
	metadata    any
	createdType uint32
	created     any
	change      map[string]any
}

func (f formed) record(t *testing.T) record {
	t.Helper()
	if f.payloadType == 0 {
		f.payloadType, f.payload = 3802, `{"total": 12.50}`
	}
	if f.createdType == 0 {
		f.createdType = 1184
	}
	columns := []column{
		{"id", 2950}, {"aggregate_type", 25}, {"aggregate_id", 25}, {"event_type", 25}, {"payload", f.payloadType}, {"metadata", 3802},
		{"created_at", f.createdType}, {"tenant", 25}, {"raw", 17},
	}
	row := map[string]any{
		"id": "e1", "aggregate_type": "order", "aggregate_id": "4711", "event_type": "OrderPlaced", "payload": f.payload, "metadata": f.metadata,
		"created_at": f.created, "tenant": "acme", "raw": `\x00ff`,
	}
	for name, value := range f.change {
		row[name] = value
	}
	var values []any
	for _, c := range columns {
		values = append(values, row[c.name])
	}
	return decoded(t, decoder.Table{Schema: "public", Name: "outbox_events"}, columns, values)
}

func TestHeadersOfTheProfiles(t *testing.T) {
	e := formed{created: "2026-02-28 12:00:00.5+00", metadata: `{"user": "ann", "ce_id": "x", "id": "y", "event_id": "z", "position": "p", "origin": "o"}`}.record(t)
	position := "position=" + e.position.String()
	for _, tt := range []struct {
		profile Profile
		blind   bool
		want    []string
	}{
		{HeadersPlain, false, []string{
			"event_id=e1", "event_type=OrderPlaced", "aggregate_type=order", "aggregate_id=4711", "content-type=application/json", position, "origin=ORIGIN",
			"user=ann", "ce_id=x", "id=y",
		}},
		{HeadersDebezium, false, []string{"id=e1", "eventType=OrderPlaced", position, "origin=ORIGIN", "user=ann", "ce_id=x", "event_id=z"}},
		{HeadersDebezium, true, []string{"id=e1", "eventType=OrderPlaced", "user=ann", "ce_id=x", "event_id=z"}},
		{HeadersCloudEvents, false, []string{
			"ce_specversion=1.0", "ce_id=e1", "ce_type=OrderPlaced", "ce_source=order", "ce_subject=4711", "ce_partitionkey=4711",
			"ce_time=2026-02-28T12:00:00.500000Z", "content-type=application/json", "ce_sequence=" + e.position.String(), "origin=ORIGIN",
			"user=ann", "id=y", "event_id=z",
		}},
	} {
		t.Run(string(tt.profile), func(t *testing.T) {
			cfg := testConfig(nil)
			cfg.Headers, cfg.PositionHeaders = tt.profile, !tt.blind
			got, why := sendAs(t, cfg, e)
			if why != nil {
				t.Fatal(why)
			}
			if origin, found := got.header("origin"); found {
				got.headers[slices.Index(got.headers, "origin="+origin)] = "origin=ORIGIN"
			}
			if !slices.Equal(got.headers, tt.want) {
				t.Errorf("got  %q\nwant %q", got.headers, tt.want)
			}
		})
	}
}

func TestHeadersOfColumnsAndSettings(t *testing.T) {
	cfg := testConfig(nil)
	cfg.PositionHeaders, cfg.Headers = false, HeadersDebezium
	cfg.HeaderColumns = []string{"tenant", "raw:x-raw", "created_at:time"}
	cfg.StaticHeaders = []string{"source=shop", "empty=", "formula=a=b, c"}
	for _, tt := range []struct {
		name string
		row  formed
		want []string
	}{
		{"all", formed{created: "2026-02-28 12:00:00+00"}, []string{"tenant=acme", "x-raw=\x00\xff", "time=2026-02-28 12:00:00+00"}},
		{"NULL is no header", formed{change: map[string]any{"tenant": nil, "raw": nil}}, nil},
		{"an empty text is one", formed{change: map[string]any{"tenant": "", "raw": `\x`}}, []string{"tenant=", "x-raw="}},
		{"the application has no say in them", formed{change: map[string]any{"raw": nil}, metadata: `{"tenant": "evil", "source": "evil", "x": "y"}`},
			[]string{"tenant=acme"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, why := sendAs(t, cfg, tt.row.record(t))
			if why != nil {
				t.Fatal(why)
			}
			want := slices.Concat([]string{"id=e1", "eventType=OrderPlaced"}, tt.want, []string{"source=shop", "empty=", "formula=a=b, c"})
			if tt.row.metadata != nil {
				want = append(want, "x=y")
			}
			if !slices.Equal(got.headers, want) {
				t.Errorf("got  %q\nwant %q", got.headers, want)
			}
		})
	}
}

func TestFaultsOfTheForm(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"an unknown profile", func(c *Config) { c.Headers = "json" }, `--headers must be one of plain, debezium, cloudevents, got "json"`},
		{"an unknown timestamp", func(c *Config) { c.Timestamp = "now" }, `--timestamp must be one of commit, created_at, publish, got "now"`},
		{"no column", func(c *Config) { c.HeaderColumns = []string{":x"} }, `--header must be COLUMN or COLUMN:NAME, got ":x"`},
		{"no name", func(c *Config) { c.HeaderColumns = []string{"a:"} }, `--header must name a header of 1 to 255 bytes without control characters, got "a:"`},
		{"a header twice", func(c *Config) { c.HeaderColumns = []string{"a:x", "b:x"} }, `--header must not name header "x", which is there already; choose another name, got "b:x"`},
		{"a header of the profile", func(c *Config) { c.HeaderColumns = []string{"event_type"} },
			`--header must not name header "event_type", which is there already; choose another name, got "event_type"`},
		{"our position", func(c *Config) { c.Headers, c.HeaderColumns = HeadersCloudEvents, []string{"a:position"} },
			`--header must not name header "position", which is there already; choose another name, got "a:position"`},
		{"a static header that a column makes", func(c *Config) { c.HeaderColumns, c.StaticHeaders = []string{"a"}, []string{"a=b"} },
			`--static-header must not name header "a", which is there already; choose another name, got "a=b"`},
		{"a static header without a value", func(c *Config) { c.StaticHeaders = []string{"a"} }, `--static-header must be NAME=VALUE, got "a"`},
		{"a line break in a name", func(c *Config) { c.StaticHeaders = []string{"a\nb=c"} },
			`--static-header must name a header of 1 to 255 bytes without control characters, got "a\nb=c"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig([]string{"localhost:9092"})
			tt.change(&cfg)
			if err := cfg.Validate(); err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// Whatever an application puts into its metadata, the event goes out, with the
// headers that are ours; or it is set aside for a named reason.
func TestHostileMetadata(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	long := strings.Repeat("x", 100_000)
	for _, tt := range []struct {
		name, metadata string
		want           []string
		left           leftOut
		reason         Reason
	}{
		{name: "names of ours", metadata: `{"position": "1", "origin": "2", "event_id": "3", "content-type": "text/html"}`, left: leftOut{reserved: 4}},
		{name: "another case is another name", metadata: `{"Position": "1"}`, want: []string{"Position=1"}},
		{name: "control characters in a value", metadata: `{"a": "x\r\ny\u0000\u001b[31m"}`, want: []string{"a=x\r\ny\x00\x1b[31m"}},
		{name: "control characters in a name", metadata: `{"a\r\nb": "1", "": "2", "\u0085": "3", "c": "4"}`, want: []string{"c=4"}, left: leftOut{unnamed: 3}},
		{name: "a name too long", metadata: `{"` + long[:256] + `": "1", "` + long[:255] + `": "2"}`, want: []string{long[:255] + "=2"}, left: leftOut{unnamed: 1}},
		{name: "any script", metadata: `{"größe": "日本", "😀": "\ud83d\ude00"}`, want: []string{"größe=日本", "😀=😀"}},
		{name: "nested", metadata: `{"a": {"position": [1, {"b": "}"}]}, "c": [], "d": null, "e": true, "f": 1.10}`,
			want: []string{`a={"position": [1, {"b": "}"}]}`, "c=[]", "d=null", "e=true", "f=1.10"}},
		{name: "nothing", metadata: `{}`},
		{name: "an array", metadata: `["a", "b"]`, reason: ReasonInvalidMetadata},
		{name: "a number", metadata: `1`, reason: ReasonInvalidMetadata},
		{name: "a text", metadata: `"{}"`, reason: ReasonInvalidMetadata},
		{name: "null", metadata: `null`, reason: ReasonInvalidMetadata},
		{name: "100 kB", metadata: `{"a": "` + long + `"}`, want: []string{"a=" + long}},
		{name: "a trace", metadata: `{"baggage": "b=1", "tracestate": "s=1", "traceparent": "` + parent + `"}`,
			want: []string{"baggage=b=1", "tracestate=s=1", "traceparent=" + parent}},
		{name: "no trace", metadata: `{"baggage": "b=1", "tracestate": "s=1", "traceparent": "00-1\r\nx: y"}`, want: []string{"baggage=b=1"}, left: leftOut{untraced: 2}},
		{name: "a state without a trace", metadata: `{"tracestate": "s=1"}`, left: leftOut{untraced: 1}},
		{name: "a trace that is no text", metadata: `{"traceparent": {"a": 1}}`, left: leftOut{untraced: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(nil)
			e := formed{metadata: tt.metadata}.record(t)
			got, why := sendAs(t, cfg, e)
			if tt.reason != "" {
				if why == nil || why.Reason != tt.reason {
					t.Errorf("got %v, want it set aside for %q", why, tt.reason)
				}
				return
			}
			if why != nil {
				t.Fatal(why)
			}
			const ours = 7
			if !slices.Equal(got.headers[ours:], tt.want) {
				t.Errorf("got %.200q, want %.200q", got.headers[ours:], tt.want)
			}
			r, err := newRouter(cfg, Session{})
			if err != nil {
				t.Fatal(err)
			}
			w := headerWriter{values: values{plans: r.plans}}
			if w.of(&e); w.leftOut != tt.left {
				t.Errorf("left out: got %+v, want %+v", w.leftOut, tt.left)
			}
		})
	}
}

func TestTraceparents(t *testing.T) {
	const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]bool{
		valid: true, "cc" + valid[2:] + "-more": true, "cc" + valid[2:]: true,
		"": false, valid[:54]: false, valid + "x": false, valid + "-x": false, "cc" + valid[2:] + "x": false, "ff" + valid[2:]: false,
		strings.ToUpper(valid): false, " " + valid[1:]: false, strings.Replace(valid, "-", "_", 1): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false, "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
	} {
		if got := validTraceparent([]byte(text)); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

// Behaviours: C1, C7
func TestValues(t *testing.T) {
	const frame = `{"id":"e1","type":"OrderPlaced","aggregate":{"type":"order","id":"4711"},"time":"2026-02-28T12:00:01.500250Z","payload":`
	for _, tt := range []struct {
		name                                string
		payloadType                         uint32
		payload                             any
		want, contentType, inside, envelope string
	}{
		{name: "jsonb", payloadType: 3802, payload: `{"a": 1.10}`, want: `{"a": 1.10}`, contentType: "application/json", inside: `{"a": 1.10}`},
		{name: "json", payloadType: 114, payload: " [ 1,\n2 ] ", want: " [ 1,\n2 ] ", contentType: "application/json", inside: " [ 1,\n2 ] "},
		{name: "text", payloadType: 25, payload: "a \"quoted\\\"\tä\x7f\u2028", want: "a \"quoted\\\"\tä\x7f\u2028", contentType: "text/plain; charset=utf-8",
			inside: "\"a \\\"quoted\\\\\\\"\\u0009ä\x7f\u2028\""},
		{name: "an empty text", payloadType: 1043, payload: "", want: "", contentType: "text/plain; charset=utf-8", inside: `""`},
		{name: "text that is not UTF-8", payloadType: 25, payload: "a\xff", want: "a\xff", contentType: "text/plain; charset=utf-8", inside: "\"a\ufffd\""},
		{name: "xml", payloadType: 142, payload: `<a b="c"/>`, want: `<a b="c"/>`, contentType: "application/xml", inside: `"<a b=\"c\"/>"`},
		{name: "bytea", payloadType: 17, payload: `\x00ff7b`, want: "\x00\xff{", contentType: "application/octet-stream", inside: `"AP97"`},
		{name: "empty bytea", payloadType: 17, payload: `\x`, want: "", contentType: "application/octet-stream", inside: `""`},
		{name: "jsonb null", payloadType: 3802, payload: `null`, want: `null`, contentType: "application/json", inside: `null`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := formed{payloadType: tt.payloadType, payload: tt.payload}.record(t)
			cfg := testConfig(nil)
			got, why := sendAs(t, cfg, e)
			if kind, _ := got.header(contentTypeHeader); why != nil || string(got.value) != tt.want || got.value == nil || kind != tt.contentType {
				t.Errorf("got %q of type %s (%v), want %q of type %s", got.value, kind, why, tt.want, tt.contentType)
			}
			cfg.Envelope = true
			got, why = sendAs(t, cfg, e)
			if kind, _ := got.header(contentTypeHeader); why != nil || string(got.value) != frame+tt.inside+"}" || kind != "application/json" || !json.Valid(got.value) {
				t.Errorf("got  %q of type %s (%v)\nwant %q", got.value, kind, why, frame+tt.inside+"}")
			}
		})
	}
	for _, envelope := range []bool{false, true} {
		cfg := testConfig(nil)
		cfg.Envelope = envelope
		got, why := sendAs(t, cfg, formed{payloadType: 25}.record(t))
		if kind, found := got.header(contentTypeHeader); why != nil || got.value != nil || found {
			t.Errorf("NULL, envelope %t: got %q of type %q (%v), want a tombstone", envelope, got.value, kind, why)
		}
	}
}

// CloudEvents have a type and a source.
func TestCloudEventsWithoutATypeOrSource(t *testing.T) {
	cfg := testConfig(nil)
	cfg.Topic, cfg.Headers = "events", HeadersCloudEvents
	for _, value := range []any{nil, ""} {
		for name, want := range map[string]Reason{"event_type": ReasonNoEventType, "aggregate_type": ReasonNoAggregateType} {
			if _, why := sendAs(t, cfg, formed{change: map[string]any{name: value}}.record(t)); why == nil || why.Reason != want {
				t.Errorf("%s %q: got %v, want %q", name, value, why, want)
			}
		}
	}
}

// What a record is made of does not cost an allocation, whatever its form.
func TestFormDoesNotAllocate(t *testing.T) {
	cfg := testConfig(nil)
	cfg.Headers, cfg.Envelope, cfg.Timestamp = HeadersCloudEvents, true, TimestampCreatedAt
	cfg.HeaderColumns, cfg.StaticHeaders, cfg.ExcludeTypes = []string{"tenant", "raw:x"}, []string{"a=b"}, []string{"Noise"}
	e := formed{payloadType: 25, payload: "a \"text\"\n", created: "2026-02-28 12:00:00.5+00", metadata: `{"traceparent": "none", "a\t": "b"}`}.record(t)
	r, err := newRouter(cfg, Session{})
	if err != nil {
		t.Fatal(err)
	}
	w := headerWriter{values: values{plans: r.plans}, origin: []byte("origin")}
	st := stamp{how: TimestampCreatedAt}
	if n := testing.AllocsPerRun(100, func() {
		v := r.read(e.row)
		if !r.published(v) || r.judge(v) != nil {
			t.Error("the event is not published")
		}
		w.of(&e)
		w.value(&e)
		st.of(&e)
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

package publisher

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// pageExample is an example of docs/mapping.md.
type pageExample struct {
	line    int
	flags   map[string]string
	columns map[string]any
	types   map[string]uint32 // of columns, where they are others than usual
	message string            // instead of a row
	want    []string
}

// pageTypes are the types that an example may name, by their OIDs.
var pageTypes = map[string]uint32{"bigint": 20, "bytea": 17, "date": 1082, "text": 25, "timestamp": 1114, "xml": 142}

// pageExamples reads the examples of the page.
func pageExamples(t *testing.T) []pageExample {
	t.Helper()
	content, err := os.ReadFile("../docs/mapping.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []pageExample
	inside := false
	for number, line := range strings.Split(string(content), "\n") {
		switch {
		case line == "```example":
			inside = true
			all = append(all, pageExample{line: number + 1, flags: make(map[string]string), columns: make(map[string]any), types: make(map[string]uint32)})
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			all[len(all)-1].read(t, line)
		}
	}
	return all
}

func (x *pageExample) read(t *testing.T, line string) {
	t.Helper()
	if flag, ok := strings.CutPrefix(line, "--"); ok {
		name, value, _ := strings.Cut(flag, " ")
		x.flags[name] = value
		return
	}
	if message, ok := strings.CutPrefix(line, "message = "); ok {
		x.message = message
		return
	}
	if name, value, ok := strings.Cut(line, " = "); ok && !strings.Contains(name, ":") {
		name, typeName, typed := strings.Cut(name, " ")
		if typed {
			x.types[name] = pageTypes[typeName]
			if x.types[name] == 0 {
				t.Errorf("line %d: there is no type %s", x.line, typeName)
			}
		}
		if x.columns[name] = value; value == "NULL" {
			x.columns[name] = nil
		}
		return
	}
	x.want = append(x.want, line)
}

// config is what the flags of an example say.
func (x pageExample) config(t *testing.T) Config {
	t.Helper()
	cfg := testConfig([]string{"localhost:9092"})
	list := func(value string) []string { return strings.Split(value, ",") }
	for name, value := range x.flags {
		switch name {
		case "topic":
			cfg.Topic = value
		case "topic-map":
			cfg.TopicMap = list(value)
		case "key":
			cfg.Key = Key(value)
		case "partition-by":
			cfg.PartitionBy = PartitionBy(value)
		case "include-types":
			cfg.IncludeTypes = list(value)
		case "exclude-types":
			cfg.ExcludeTypes = list(value)
		case "headers":
			cfg.Headers = Profile(value)
		case "header":
			cfg.HeaderColumns = list(value)
		case "static-header":
			cfg.StaticHeaders = list(value)
		case "timestamp":
			cfg.Timestamp = Timestamp(value)
		case "envelope":
			cfg.Envelope = true
		case "position-headers=false":
			cfg.PositionHeaders = false
		case "message-prefix": // of the stream
		default:
			t.Errorf("line %d: there is no flag --%s", x.line, name)
		}
	}
	if err := cfg.Validate(); err != nil {
		t.Errorf("line %d: %v", x.line, err)
	}
	return cfg
}

// Each example of the page holds: what it says about the record is so, and of the
// headers, if it names any but the content type, it names all.
//
// Behaviours: K6
func TestExamplesOfMappingPage(t *testing.T) {
	examples := pageExamples(t)
	if len(examples) < 20 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	columns := []column{
		{"id", 2950}, {"aggregate_type", 25}, {"aggregate_id", 25}, {"event_type", 25}, {"payload", 3802}, {"metadata", 3802}, {"created_at", 1184},
		{"tenant", 25}, {"shard", 23},
	}
	row := []any{"e1", "order", "4711", "OrderPlaced", `{"total": 12.50}`, nil, "2026-02-28 12:00:00.5+00", "acme", 3}
	for _, x := range examples {
		t.Run(strconv.Itoa(x.line), func(t *testing.T) {
			if x.message != "" {
				x.check(t, x.config(t), decodedMessage(t, x.flags["message-prefix"], x.message))
				return
			}
			var values []any
			columns := slices.Clone(columns)
			for i, c := range columns {
				if oid, changed := x.types[c.name]; changed {
					columns[i].oid = oid
				}
				value, changed := x.columns[c.name]
				if !changed {
					value = row[i]
				}
				values = append(values, value)
			}
			x.check(t, x.config(t), decoded(t, decoder.Table{Schema: "public", Name: "outbox_events"}, columns, values))
		})
	}
}

// decodedMessage is a logical message, as the server sends it.
func decodedMessage(t *testing.T, prefix, content string) record {
	t.Helper()
	message := append([]byte{'M', 1, 0, 0, 0, 0, 1, 0x6b, 0x37, 0x48}, prefix...)
	message = append(binary.BigEndian.AppendUint32(append(message, 0), uint32(len(content))), content...)
	d := decoder.New(nil)
	d.AcceptMessages(prefix)
	chunk := decoder.NewPool().Get()
	for _, m := range [][]byte{beginMessage(transaction{commit: 0x16b3748, end: 0x16b3778, at: sentAt}), message} {
		if err := d.Decode(m, chunk); err != nil {
			t.Fatal(err)
		}
	}
	return record{row: chunk.Entries[0].Row, position: chunk.Entries[0].Position}
}

func (x pageExample) check(t *testing.T, cfg Config, e record) {
	t.Helper()
	if e.row.Relation().Unreadable { // which admit sets aside before all
		if want := "poison: " + string(ReasonInvalidMessage); len(x.want) != 1 || x.want[0] != want {
			t.Errorf("got %q, want %q", want, x.want)
		}
		return
	}
	r, err := newRouter(cfg, Session{})
	if err != nil {
		t.Fatal(err)
	}
	if filtered := !r.published(r.read(e.row)); filtered || x.want[0] == "filtered: yes" {
		if !filtered || len(x.want) != 1 || x.want[0] != "filtered: yes" {
			t.Errorf("filtered: %t, want %q", filtered, x.want)
		}
		return
	}
	got, why := sendAs(t, cfg, e)
	if why != nil || strings.HasPrefix(x.want[0], "poison: ") {
		if want, _ := strings.CutPrefix(x.want[0], "poison: "); why == nil || string(why.Reason) != want {
			t.Errorf("got %v, want %q", why, x.want)
		}
		return
	}
	said := got.lines()
	headers := 0
	for _, line := range x.want {
		if !said[line] {
			t.Errorf("the page says %q, the record %v", line, got)
		}
		if strings.HasPrefix(line, "header: ") {
			headers++
		}
	}
	if headers > 1 && headers != len(got.headers) {
		t.Errorf("the page names %d headers, the record has %q", headers, got.headers)
	}
}

// lines are what a page may say about a record.
func (s sent) lines() map[string]bool {
	value := string(s.value)
	if s.value == nil {
		value = "NULL"
	}
	lines := map[string]bool{
		"topic: " + s.topic: true, "partition: " + strconv.Itoa(int(s.partition)): true, "key: " + string(s.key): true, "value: " + value: true,
		"timestamp: " + s.timestamp.Format(time.RFC3339Nano): true,
	}
	for _, h := range s.headers {
		if strings.HasPrefix(h, "origin=") {
			h = "origin=ORIGIN"
		}
		lines["header: "+h] = true
	}
	return lines
}

package decoder

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Messages with the prefix are rows, in order with those of tables and counted
// with them; what is no event is one column that holds it.
func TestMessagesAreEvents(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, tt := range []struct{ name, content, want string }{
		{"each field", `{"id":"1","aggregate_type":"order","aggregate_id":"o-1","event_type":"Placed","payload":{"n": 1.10},"metadata":{"a":"b"}}`,
			`id=1 aggregate_type=order aggregate_id=o-1 event_type=Placed payload={"n": 1.10} metadata={"a":"b"}`},
		{"another name for the id, and what nobody knows", `{"event_id":"e","id":"i","other":[1,{"id":2}]}`, `id=e`},
		{"numbers", `{"id":42,"aggregate_id":1e400,"event_type":true}`, `id=42 aggregate_id=1e400 event_type=true`},
		{"nulls", `{"id":null,"event_id":null,"payload":null}`, ``},
		{"a payload that is a text", ` {"id":"1","payload":"a\u0062"} `, `id=1 payload="a\u0062"`},
		{"an empty text, and escapes", `{"id":"","aggregate_id":"\u00e9\n"}`, "id= aggregate_id=é\n"},
		{"a large one", `{"payload":"` + long + `"}`, `payload="` + long + `"`},
		{"nothing", ``, `content=\x`},
		{"no object", `[1]`, `content=\x5b315d`},
		{"a null", `null`, `content=\x6e756c6c`},
		{"half an object", `{"id":"1`, `content=\x7b226964223a2231`},
		{"an id that is an object", `{"id":{}}`, `content=\x7b226964223a7b7d7d`},
		{"a text that PostgreSQL cannot hold", `{"id":"\u0000"}`, `content=\x7b226964223a225c7530303030227d`},
		{"bytes", "\x00\xff", `content=\x00ff`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := New([]Table{outbox})
			d.AcceptMessages("prefix")
			c := NewPool().Get()
			for _, msg := range [][]byte{
				beginMessage(0x500, commitTimeOf(0x500)), logicalMessage(true, `{"id":"first","metadata":1,"payload":2,"event_type":"x"}`),
				outboxRelation(), outboxInsert("a"), logicalMessage(true, tt.content), logicalMessage(false, tt.content), commitMessage(0x500, 0x530),
			} {
				if err := d.Decode(msg, c); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.Entries) != 4 || d.StrayMessages() != 1 {
				t.Fatalf("got %d entries and %d stray messages, want 4 and 1", len(c.Entries), d.StrayMessages())
			}
			e := c.Entries[2]
			var got []string
			for column, value := range e.Row.Columns {
				if value != nil {
					got = append(got, fmt.Sprintf("%s=%s", column.Name, value))
				}
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			rel := e.Row.Relation()
			if rel.Unreadable != strings.HasPrefix(tt.want, "content=") || rel.Table.Name != "prefix" || e.Position.Index != 2 {
				t.Errorf("got %+v at %s", rel, e.Position)
			}
			if got := c.Entries[1].Row.Relation().Table; !reflect.DeepEqual(got, outbox) {
				t.Errorf("got the table %v between the messages", got)
			}
		})
	}
}

// Without a prefix, or with another one, messages count and are no events.
func TestMessagesOfOthers(t *testing.T) {
	for _, prefix := range []string{"", "prefi", "prefix2", "PREFIX"} {
		d := New([]Table{outbox})
		if prefix != "" {
			d.AcceptMessages(prefix)
		}
		c := NewPool().Get()
		for _, msg := range [][]byte{
			beginMessage(0x500, commitTimeOf(0x500)), logicalMessage(true, `{"id":"1"}`), logicalMessage(false, `{"id":"1"}`), outboxRelation(), outboxInsert("a"), commitMessage(0x500, 0x530),
		} {
			if err := d.Decode(msg, c); err != nil {
				t.Fatal(err)
			}
		}
		if len(c.Entries) != 2 || c.Entries[0].Position.Index != 1 || d.StrayMessages() != 0 {
			t.Errorf("prefix %q: got %+v and %d stray messages", prefix, c.Entries, d.StrayMessages())
		}
	}
}

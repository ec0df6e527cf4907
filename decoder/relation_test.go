package decoder

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

func TestRelationChangesBetweenRows(t *testing.T) {
	relation := func(columns ...string) []byte {
		return relationMessage(outboxOID, "public", "outbox_events", columns...)
	}
	first := relation("id", "aggregate_type", "aggregate_id", "event_type", "payload")
	firstRow := insertMessage(outboxOID, "a", "order", "o-1", "OrderPlaced", "{}")
	for _, tt := range []struct {
		name     string
		relation []byte
		row      []byte
		want     []column
	}{
		{
			name:     "nothing",
			relation: first,
			row:      insertMessage(outboxOID, "b", "order", "o-1", "OrderPaid", "[]"),
			want: []column{
				col("id", "b"), col("aggregate_type", "order"), col("aggregate_id", "o-1"), col("event_type", "OrderPaid"), col("payload", "[]"),
			},
		},
		{
			name:     "a column was added",
			relation: relation("id", "aggregate_type", "aggregate_id", "event_type", "payload", "tenant"),
			row:      insertMessage(outboxOID, "b", "order", "o-1", "OrderPaid", "[]", nil),
			want: []column{
				col("id", "b"), col("aggregate_type", "order"), col("aggregate_id", "o-1"), col("event_type", "OrderPaid"), col("payload", "[]"),
				null("tenant"),
			},
		},
		{
			name:     "a column was dropped and one that also serves took its place",
			relation: relation("aggregate_type", "aggregate_id", "event_type", "payload", "event_id"),
			row:      insertMessage(outboxOID, "order", "o-1", "OrderPaid", "[]", "b"),
			want: []column{
				col("aggregate_type", "order"), col("aggregate_id", "o-1"), col("event_type", "OrderPaid"), col("payload", "[]"), col("event_id", "b"),
			},
		},
		{
			name:     "the order of the columns",
			relation: relation("payload", "event_type", "aggregate_id", "aggregate_type", "id"),
			row:      insertMessage(outboxOID, "[]", "OrderPaid", "o-1", "order", "b"),
			want: []column{
				col("payload", "[]"), col("event_type", "OrderPaid"), col("aggregate_id", "o-1"), col("aggregate_type", "order"), col("id", "b"),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, c := New([]Table{outbox}), NewPool().Get()
			decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), first, firstRow, tt.relation, tt.row, commitMessage(0x500, 0x530))
			compareEntries(t, entriesOf(c), []entry{
				outboxEvent(positionOf(0x500, 0), "a"),
				{Position: positionOf(0x500, 1), Table: outbox, Relation: "public.outbox_events", Columns: tt.want},
				marker(0x530, commitTimeOf(0x500)),
			})
			for i, want := range []string{"{}", "[]"} {
				if got := string(c.Entries[i].Row.Field(FieldPayload)); got != want {
					t.Errorf("payload %d: got %s, want %s", i, got, want)
				}
			}
			for i, want := range []string{"a", "b"} {
				if got := string(c.Entries[i].Row.Field(FieldID)); got != want {
					t.Errorf("id %d: got %s, want %s", i, got, want)
				}
			}
		})
	}
}

func TestRelationLosesColumnBetweenRows(t *testing.T) {
	d, c := New([]Table{outbox}), NewPool().Get()
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"))
	err := d.Decode(relationMessage(outboxOID, "public", "outbox_events", "id", "aggregate_type", "aggregate_id", "event_type"), c)
	var mapping *MappingError
	if !errors.As(err, &mapping) || !slices.Equal(mapping.Missing, []string{"payload"}) {
		t.Errorf("got %v, want a *MappingError about payload", err)
	}
	compareEntries(t, entriesOf(c), []entry{outboxEvent(positionOf(0x500, 0), "a")})
}

func TestRelationsThatAreOurs(t *testing.T) {
	columns := []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"}
	relation := func(oid uint32, schema, name string) []byte { return relationMessage(oid, schema, name, columns...) }
	row := func(oid uint32, id string) []byte { return insertMessage(oid, id, "order", "o-1", "OrderPlaced", "{}") }
	known := Table{OID: 100, Schema: "public", Name: "outbox_events"}
	tenant := Table{OID: 200, Schema: "tenant", Name: "outbox_events"}
	type source struct {
		ID       string
		Table    Table
		Relation string
	}
	for _, tt := range []struct {
		name     string
		tables   []Table
		messages [][]byte
		want     []source
	}{
		{
			name:     "by name",
			tables:   []Table{outbox},
			messages: [][]byte{relation(100, "public", "outbox_events"), row(100, "a")},
			want:     []source{{"a", outbox, "public.outbox_events"}},
		},
		{
			name:     "of another schema",
			tables:   []Table{outbox},
			messages: [][]byte{relation(100, "tenant", "outbox_events"), row(100, "a")},
		},
		{
			name:     "of another name",
			tables:   []Table{outbox},
			messages: [][]byte{relation(100, "public", "Outbox_Events"), row(100, "a")},
		},
		{
			name:     "an OID of 0 in the configuration matches nothing",
			tables:   []Table{outbox},
			messages: [][]byte{relation(0, "public", "other"), row(0, "a")},
		},
		{
			name:     "renamed before the session",
			tables:   []Table{known},
			messages: [][]byte{relation(100, "public", "outbox_archive"), row(100, "a")},
			want:     []source{{"a", known, "public.outbox_archive"}},
		},
		{
			name:   "renamed and moved during the session",
			tables: []Table{known},
			messages: [][]byte{
				relation(100, "public", "outbox_events"), row(100, "a"),
				relation(100, "archive", "outbox_events"), row(100, "b"),
				relation(100, "archive", "outbox_2025"), row(100, "c"),
			},
			want: []source{
				{"a", known, "public.outbox_events"}, {"b", known, "archive.outbox_events"}, {"c", known, "archive.outbox_2025"},
			},
		},
		{
			name:   "dropped and made again",
			tables: []Table{known},
			messages: [][]byte{
				relation(100, "public", "outbox_events"), row(100, "a"), relation(101, "public", "outbox_events"), row(101, "b"), row(100, "c"),
			},
			want: []source{
				{"a", known, "public.outbox_events"}, {"b", known, "public.outbox_events"}, {"c", known, "public.outbox_events"},
			},
		},
		{
			name:   "made again, then renamed",
			tables: []Table{known},
			messages: [][]byte{
				relation(101, "public", "outbox_events"), row(101, "a"), relation(101, "public", "outbox_archive"), row(101, "b"),
			},
			want: []source{{"a", known, "public.outbox_events"}, {"b", known, "public.outbox_archive"}},
		},
		{
			name:   "another table that gets the name later",
			tables: []Table{known},
			messages: [][]byte{
				relation(101, "public", "outbox_new"), row(101, "a"), relation(101, "public", "outbox_events"), row(101, "b"),
			},
			want: []source{{"b", known, "public.outbox_events"}},
		},
		{
			name:   "two tables that exchanged their names",
			tables: []Table{known, tenant},
			messages: [][]byte{
				relation(100, "tenant", "outbox_events"), row(100, "a"), relation(200, "public", "outbox_events"), row(200, "b"),
			},
			want: []source{{"a", known, "tenant.outbox_events"}, {"b", tenant, "public.outbox_events"}},
		},
		{
			name:   "rows of a partition come under its root",
			tables: []Table{outbox},
			messages: [][]byte{
				relation(100, "public", "outbox_events"),
				relationMessage(101, "public", "outbox_events_2026", "payload", "id"), row(100, "a"),
			},
			want: []source{{"a", outbox, "public.outbox_events"}},
		},
		{
			name:   "a table that is not ours lacks columns",
			tables: []Table{outbox},
			messages: [][]byte{
				relationMessage(300, "public", "other"), insertMessage(300), relationMessage(301, "", "pg_class", "oid"), insertMessage(301, "1"),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, c := New(tt.tables), NewPool().Get()
			decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)))
			decodeAll(t, d, c, tt.messages...)
			var got []source
			for _, e := range c.Entries {
				rel := e.Row.Relation()
				got = append(got, source{string(e.Row.Field(FieldID)), rel.Table, rel.Schema + "." + rel.Name})
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The cache dies with the session: a row whose relation only the session
// before has seen is refused.
func TestRelationsBelongToTheSession(t *testing.T) {
	d, c := New([]Table{outbox}), NewPool().Get()
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"))
	d = New([]Table{outbox})
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)))
	if err := d.Decode(outboxInsert("a"), c); !errors.Is(err, ErrMalformed) {
		t.Errorf("got error %v, want ErrMalformed", err)
	}
}

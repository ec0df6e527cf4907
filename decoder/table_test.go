package decoder

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

// fieldsOf returns what serves each field of a row.
func fieldsOf(row Row) map[Field]string {
	fields := make(map[Field]string)
	for f := range fieldCount {
		if value := row.Field(f); value != nil {
			fields[f] = string(value)
		}
	}
	return fields
}

func TestFields(t *testing.T) {
	all := map[Field]string{
		FieldID: "1", FieldAggregateType: "order", FieldAggregateID: "o-1", FieldEventType: "OrderPlaced",
		FieldPayload: "{}", FieldMetadata: `{"a":1}`, FieldCreatedAt: "2026-01-02 03:04:05+00",
	}
	required := map[Field]string{
		FieldID: "1", FieldAggregateType: "order", FieldAggregateID: "o-1", FieldEventType: "OrderPlaced", FieldPayload: "{}",
	}
	for _, tt := range []struct {
		name    string
		columns []string
		values  []any
		want    map[Field]string
	}{
		{
			name:    "required columns alone",
			columns: []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"},
			values:  []any{"1", "order", "o-1", "OrderPlaced", "{}"},
			want:    required,
		},
		{
			name: "every column among others in another order",
			columns: []string{
				"status", "created_at", "metadata", "payload", "retry_count", "event_type", "aggregate_id", "aggregate_type", "id", "published_at",
			},
			values: []any{"NEW", "2026-01-02 03:04:05+00", `{"a":1}`, "{}", "0", "OrderPlaced", "o-1", "order", "1", nil},
			want:   all,
		},
		{
			name:    "event_id before id",
			columns: []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload", "event_id"},
			values:  []any{"77", "order", "o-1", "OrderPlaced", "{}", "1"},
			want:    required,
		},
		{
			name:    "event_id alone",
			columns: []string{"event_id", "aggregate_type", "aggregate_id", "event_type", "payload"},
			values:  []any{"1", "order", "o-1", "OrderPlaced", "{}"},
			want:    required,
		},
		{
			name:    "event_id that is NULL is not replaced by id",
			columns: []string{"event_id", "id", "aggregate_type", "aggregate_id", "event_type", "payload"},
			values:  []any{nil, "77", "order", "o-1", "OrderPlaced", "{}"},
			want: map[Field]string{
				FieldAggregateType: "order", FieldAggregateID: "o-1", FieldEventType: "OrderPlaced", FieldPayload: "{}",
			},
		},
		{
			name:    "names in another case are other columns",
			columns: []string{"ID", "id", "aggregate_type", "aggregate_id", "event_type", "payload", "Metadata"},
			values:  []any{"77", "1", "order", "o-1", "OrderPlaced", "{}", "x"},
			want:    required,
		},
		{
			name:    "empty texts are not NULL",
			columns: []string{"id", "aggregate_type", "aggregate_id", "event_type", "metadata", "payload"},
			values:  []any{"", "", "", "", nil, ""},
			want: map[Field]string{
				FieldID: "", FieldAggregateType: "", FieldAggregateID: "", FieldEventType: "", FieldPayload: "",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, c := New([]Table{outbox}), NewPool().Get()
			decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)),
				relationMessage(outboxOID, "public", "outbox_events", tt.columns...), insertMessage(outboxOID, tt.values...))
			row := c.Entries[0].Row
			if got := fieldsOf(row); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			for f := range fieldCount {
				var want uint32
				if slices.ContainsFunc(f.columns(), func(name string) bool { return slices.Contains(tt.columns, name) }) {
					want = textOID
				}
				if got := row.Relation().FieldType(f); got != want {
					t.Errorf("type of field %d: got %d, want %d", f, got, want)
				}
			}
		})
	}
}

func TestColumnsStopsWhenAsked(t *testing.T) {
	d, c := New([]Table{outbox}), NewPool().Get()
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"))
	var names []string
	for column := range c.Entries[0].Row.Columns {
		names = append(names, column.Name)
		if column.Name == "aggregate_type" {
			break
		}
	}
	if want := []string{"id", "aggregate_type"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestMissingColumns(t *testing.T) {
	for _, tt := range []struct {
		name    string
		columns []string
		missing []string
		text    string
	}{
		{
			name:    "nothing",
			columns: []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"},
		},
		{
			name:    "payload",
			columns: []string{"id", "aggregate_type", "aggregate_id", "event_type", "data"},
			missing: []string{"payload"},
			text:    `table "public"."outbox_events" had no column payload when the next rows were written; if it was renamed, say so under "renamed" in --tables; else add what is missing, then pass those rows with "outbox-cdc slot advance"; nothing was skipped yet`,
		},
		{
			name:    "identifier and event type",
			columns: []string{"aggregate_type", "aggregate_id", "payload"},
			missing: []string{"event_id or id", "event_type"},
			text: `table "public"."outbox_events" had no column event_id or id, no column event_type ` +
				`when the next rows were written; if it was renamed, say so under "renamed" in --tables; else add what is missing, then pass those rows with "outbox-cdc slot advance"; nothing was skipped yet`,
		},
		{
			name:    "all of them",
			columns: nil,
			missing: []string{"event_id or id", "aggregate_type", "aggregate_id", "event_type", "payload"},
			text: `table "public"."outbox_events" had no column event_id or id, no column aggregate_type, no column aggregate_id, ` +
				`no column event_type, no column payload when the next rows were written; if it was renamed, say so under "renamed" in --tables; else add what is missing, then pass those rows with "outbox-cdc slot advance"; nothing was skipped yet`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := outbox.MissingColumns(tt.columns); !slices.Equal(got, tt.missing) {
				t.Errorf("MissingColumns: got %q, want %q", got, tt.missing)
			}
			d, c := New([]Table{outbox}), NewPool().Get()
			err := d.Decode(relationMessage(outboxOID, "public", "outbox_events", tt.columns...), c)
			if tt.missing == nil {
				if err != nil {
					t.Errorf("Decode: got %v, want no error", err)
				}
				return
			}
			var got *MappingError
			if !errors.As(err, &got) {
				t.Fatalf("Decode: got %v, want a *MappingError", err)
			}
			if want := (&MappingError{Table: outbox, Missing: tt.missing}); !reflect.DeepEqual(got, want) {
				t.Errorf("Decode: got %+v, want %+v", got, want)
			}
			if err.Error() != tt.text {
				t.Errorf("text: got %q, want %q", err, tt.text)
			}
		})
	}
}

func TestTableString(t *testing.T) {
	for _, tt := range []struct {
		name  string
		table Table
		want  string
	}{
		{"plain", Table{Schema: "public", Name: "outbox_events"}, `"public"."outbox_events"`},
		{"mixed case and blank", Table{Schema: "Sales", Name: "Out Box"}, `"Sales"."Out Box"`},
		{"quotation mark", Table{Schema: "public", Name: `a"b`}, `"public"."a""b"`},
		{"not ASCII", Table{Schema: "public", Name: "ereignisse_größe"}, `"public"."ereignisse_größe"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.table.String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

package decoder

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

func preset(t *testing.T, name string) Mapping {
	t.Helper()
	m, ok := Preset(name)
	if !ok {
		t.Fatalf("there is no preset %q", name)
	}
	return m
}

func TestPresets(t *testing.T) {
	if m, ok := Preset("no such"); ok {
		t.Errorf("got %+v for a name that is none", m)
	}
	var names []string
	for _, tt := range []struct {
		preset  string
		columns []string
		values  []any
		want    map[Field]string
	}{
		{
			preset:  PresetOutboxEvents,
			columns: []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload", "created_at", "published_at", "retry_count", "status"},
			values:  []any{"1", "order", "o-1", "OrderPlaced", "{}", "2026-01-02 03:04:05+00", nil, "0", "PENDING"},
			want: map[Field]string{
				FieldID: "1", FieldAggregateType: "order", FieldAggregateID: "o-1", FieldEventType: "OrderPlaced", FieldPayload: "{}",
				FieldCreatedAt: "2026-01-02 03:04:05+00",
			},
		},
		{
			preset:  PresetOutboxMessages,
			columns: []string{"id", "event_type", "aggregate_id", "payload", "created_at", "processed_at"},
			values:  []any{"1", "OrderPlaced", "o-1", "{}", "2026-01-02 03:04:05+00", nil},
			want: map[Field]string{
				FieldID: "1", FieldAggregateType: "outbox_events", FieldAggregateID: "o-1", FieldEventType: "OrderPlaced", FieldPayload: "{}",
				FieldCreatedAt: "2026-01-02 03:04:05+00",
			},
		},
		{
			preset:  PresetOutboxMessages,
			columns: []string{"id", "aggregate_type", "event_type", "aggregate_id", "payload", "retry_count", "last_error"},
			values:  []any{"1", nil, "OrderPlaced", "o-1", "{}", "0", nil},
			want:    map[Field]string{FieldID: "1", FieldAggregateID: "o-1", FieldEventType: "OrderPlaced", FieldPayload: "{}"},
		},
		{
			preset:  PresetDebezium,
			columns: []string{"id", "aggregatetype", "aggregateid", "type", "payload"},
			values:  []any{"1", "order", "o-1", "OrderPlaced", "{}"},
			want: map[Field]string{
				FieldID: "1", FieldAggregateType: "order", FieldAggregateID: "o-1", FieldEventType: "OrderPlaced", FieldPayload: "{}",
			},
		},
		{
			preset:  PresetEventStore,
			columns: []string{"id", "stream_id", "stream_version", "event_type", "event_data", "metadata", "created_at"},
			values:  []any{"77", "order-1", "3", "OrderPlaced", "{}", `{"a":1}`, "2026-01-02 03:04:05+00"},
			want: map[Field]string{
				FieldID: "order-1/3", FieldAggregateType: "outbox_events", FieldAggregateID: "order-1", FieldEventType: "OrderPlaced",
				FieldPayload: "{}", FieldMetadata: `{"a":1}`, FieldCreatedAt: "2026-01-02 03:04:05+00",
			},
		},
		{
			preset:  PresetEventStore,
			columns: []string{"id", "stream_id", "stream_version", "event_type", "event_data"},
			values:  []any{"77", "order-1", nil, "OrderPlaced", "{}"},
			want: map[Field]string{
				FieldAggregateType: "outbox_events", FieldAggregateID: "order-1", FieldEventType: "OrderPlaced", FieldPayload: "{}",
			},
		},
	} {
		t.Run(tt.preset, func(t *testing.T) {
			names = append(names, tt.preset)
			if got := fieldsOf(mapped(t, preset(t, tt.preset), tt.columns, tt.values)); !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if got := slices.Compact(names); !slices.Equal(got, PresetNames()) {
		t.Errorf("got %v, want a case for each of %v", got, PresetNames())
	}
}

// mapped decodes a row of a table with a mapping.
func mapped(t *testing.T, m Mapping, columns []string, values []any) Row {
	t.Helper()
	table := outbox
	table.Mapping = m
	d, c := New([]Table{table}), NewPool().Get()
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)),
		relationMessage(outboxOID, "public", "outbox_events", columns...), insertMessage(outboxOID, values...))
	return c.Entries[0].Row
}

// A column that is named has to be there, whatever it is for.
func TestMappingMisses(t *testing.T) {
	columns := []string{"id", "aggregate_id", "event_type", "payload"}
	for _, tt := range []struct {
		name    string
		mapping Mapping
		missing []string
	}{
		{"the default", Mapping{}, []string{"aggregate_type"}},
		{"a default that is named", Mapping{ID: "id", AggregateType: "aggregate_type"}, []string{"aggregate_type"}},
		{"another column for the id", Mapping{ID: "id"}, nil},
		{"each", Mapping{ID: "a", AggregateType: "b", AggregateID: "c", EventType: "d", Payload: "e", Metadata: "f", CreatedAt: "g"},
			[]string{"a", "b", "c", "d", "e", "f", "g"}},
		{"parts of the id", Mapping{IDColumns: []string{"stream_id", "id", "stream_version"}}, []string{"stream_id", "stream_version"}},
		{"one column for two fields", Mapping{IDColumns: []string{"stream_id", "stream_version"}, AggregateID: "stream_id"},
			[]string{"stream_id", "stream_version"}},
		{"what was renamed", Mapping{AggregateType: "kind", ID: "number", Renamed: map[string]string{"kind": "event_type", "payload": "body", "number": "no"}},
			[]string{"no or number"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := outbox
			table.Mapping = tt.mapping
			if got := table.MissingColumns(columns); !reflect.DeepEqual(got, tt.missing) {
				t.Errorf("got %q, want %q", got, tt.missing)
			}
		})
	}
}

package decoder

import (
	"slices"
	"strings"
)

// Mapping names the columns of an outbox table that serve the fields of an
// event. An empty name means the default one: event_id or else id for the id,
// and for the others the field's own name, such as aggregate_type. A column that
// is named has to be there, the default ones of metadata and created_at need not.
//
// The zero Mapping is that of the table of the articles on the pattern, which
// has a column for the aggregate type. With any other one a table may lack that
// column, unless it is named: the name of the table then stands for the type of
// its aggregates.
type Mapping struct {
	ID            string
	AggregateType string
	AggregateID   string
	EventType     string
	Payload       string
	Metadata      string
	CreatedAt     string
	// IDColumns, if not empty, stand for ID: their texts, joined by "/", are the
	// id of an event. It is NULL if one of them is.
	IDColumns []string
	// Renamed holds the new names of columns that have got one, by the name that
	// stands above or is the default. Rows of before and after are understood.
	Renamed map[string]string
}

// The names of the presets, which are the kinds of tables that can be used as
// they are.
const (
	PresetOutboxEvents   = "outbox_events"
	PresetOutboxMessages = "outbox_messages"
	PresetDebezium       = "debezium"
	PresetEventStore     = "event_store"
)

// PresetNames returns the names of the presets, the default first.
func PresetNames() []string {
	return []string{PresetOutboxEvents, PresetOutboxMessages, PresetDebezium, PresetEventStore}
}

// Preset returns the mapping of a kind of table, and false if there is no preset
// of that name.
func Preset(name string) (Mapping, bool) {
	switch name {
	case PresetOutboxEvents:
		return Mapping{}, true
	case PresetOutboxMessages:
		// The short form of the table has no aggregate type.
		return Mapping{ID: "id"}, true
	case PresetDebezium:
		return Mapping{ID: "id", AggregateType: "aggregatetype", AggregateID: "aggregateid", EventType: "type", Payload: "payload"}, true
	case PresetEventStore:
		return Mapping{
			IDColumns: []string{"stream_id", "stream_version"}, AggregateID: "stream_id", EventType: "event_type", Payload: "event_data",
		}, true
	}
	return Mapping{}, false
}

// IsZero reports whether nothing is named. New names alone name nothing.
func (m Mapping) IsZero() bool {
	return m.ID == "" && m.AggregateType == "" && m.AggregateID == "" && m.EventType == "" && m.Payload == "" &&
		m.Metadata == "" && m.CreatedAt == "" && len(m.IDColumns) == 0
}

// named returns the column that is named for a field, if any.
func (m Mapping) named(f Field) string {
	return [fieldCount]string{m.ID, m.AggregateType, m.AggregateID, m.EventType, m.Payload, m.Metadata, m.CreatedAt}[f]
}

// columns returns the names of the columns that may serve a field, of which the
// first one counts that the table has.
func (m Mapping) columns(f Field) []string {
	if name := m.named(f); name != "" {
		return []string{name}
	}
	return f.columns()
}

// required reports whether a table without a column for a field cannot be used.
func (m Mapping) required(f Field) bool {
	switch f {
	case FieldAggregateType:
		return m.IsZero() || m.AggregateType != ""
	case FieldMetadata, FieldCreatedAt:
		return m.named(f) != ""
	}
	return true
}

// Columns returns the names of all columns that a table is asked for, whether it
// has to have them or not.
func (m Mapping) Columns() []string {
	var all []string
	for f := range fieldCount {
		if f == FieldID && len(m.IDColumns) > 0 {
			all = append(all, m.IDColumns...)
		} else {
			all = append(all, m.columns(f)...)
		}
	}
	return all
}

// withNewNames puts the new name of a column in front of each that has one.
func (m Mapping) withNewNames(names []string) []string {
	if len(m.Renamed) == 0 {
		return names
	}
	var all []string
	for _, name := range names {
		if renamed := m.Renamed[name]; renamed != "" {
			all = append(all, renamed)
		}
		all = append(all, name)
	}
	return all
}

// index finds, among the columns of a relation, those that serve each field. It
// returns the ones that are missing, each as the names that would serve.
func (m Mapping) index(columns []Column) (fields [fieldCount][]int, missing []string) {
	find := func(f Field, required bool, names ...string) {
		names = m.withNewNames(names)
		for _, name := range names {
			if i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name }); i >= 0 {
				fields[f] = append(fields[f], i)
				return
			}
		}
		if lack := strings.Join(names, " or "); required && !slices.Contains(missing, lack) {
			missing = append(missing, lack)
		}
	}
	for f := range fieldCount {
		if f == FieldID && len(m.IDColumns) > 0 {
			for _, name := range m.IDColumns {
				find(f, true, name)
			}
			continue
		}
		find(f, m.required(f), m.columns(f)...)
	}
	return fields, missing
}

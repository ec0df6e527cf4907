package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
	"github.com/outbox-cdc/outbox-cdc/sql"
)

// outboxTable is an outbox table as configured.
type outboxTable struct {
	decoder.Table
	preset string
	// custom says that columns are named beside the preset's, so that there is
	// no DDL that would make the table.
	custom bool
	place  replication.Place
	// routing is what the table has of its own.
	routing publisher.TableRouting
}

// outboxes reads the outbox tables. Where there is a fault, the default takes
// their place, as whatever else was said about them would only follow from it.
func (s *settings) outboxes() []outboxTable {
	if s.tables != nil {
		return s.tables
	}
	before := len(s.faults)
	s.tables = s.readOutboxes()
	if len(s.faults) > before || s.tables == nil {
		s.tables = []outboxTable{{Table: decoder.Table{Schema: "public", Name: "outbox_events"}, preset: decoder.PresetOutboxEvents}}
	}
	return s.tables
}

func (s *settings) readOutboxes() []outboxTable {
	preset := s.value("preset", decoder.PresetOutboxEvents)
	mapping, ok := decoder.Preset(preset)
	if !ok {
		s.fault("--preset must be %s, got %q", presetChoice(), preset)
		return nil
	}
	if list := findOption(resolved(s.c).options, "tables"); list != nil && list.value != "" {
		return s.describedOutboxes(list, preset)
	}
	if s.value("table", defaultTable) == "" && s.value("message-prefix", "") != "" {
		return []outboxTable{} // messages alone
	}
	tables, err := parseTables(s.value("table", defaultTable))
	if err != nil {
		s.fault("--table %w", err)
		return nil
	}
	var place replication.Place
	if preset != decoder.PresetOutboxEvents {
		place.Columns = "--preset " + preset
	}
	var all []outboxTable
	for _, t := range tables {
		t.Mapping = mapping
		all = append(all, outboxTable{Table: t, preset: preset, place: place})
	}
	return all
}

// describedOutboxes makes tables of the list that an option holds. What is wrong
// with the list as such is known already.
func (s *settings) describedOutboxes(list *option, preset string) []outboxTable {
	places := make(map[string]string)
	var all []outboxTable
	for _, described := range list.tables {
		place := list.placeOf(described.line)
		t, err := described.outbox(preset)
		if err != nil {
			s.fault("%s: %w", place, err)
			continue
		}
		name := t.Table.String()
		if first, twice := places[name]; twice {
			s.fault("%s: table %s stands in %s already; leave one of them out", place, name, first)
		}
		places[name], t.place = place, replication.Place{Name: place, Columns: place}
		t.routing = publisher.TableRouting{
			Table: name, Place: place,
			Topic: described.topic, Key: publisher.Key(described.key), PartitionBy: publisher.PartitionBy(described.partitionBy),
		}
		all = append(all, t)
	}
	return all
}

// tableRouting returns what tables have of a routing of their own.
func (s *settings) tableRouting() []publisher.TableRouting {
	var all []publisher.TableRouting
	for _, t := range s.outboxes() {
		if t.routing.Table != "" {
			all = append(all, t.routing)
		}
	}
	return all
}

// placeOf names a line of the value of an option for a fault.
func (o *option) placeOf(line int) string {
	if o.source.kind == fromFile {
		return fmt.Sprintf("%s:%d", o.source.path, line)
	}
	return dashed(o.name)
}

// outbox makes a table of its description; preset is that of a table that names
// none.
func (t describedTable) outbox(preset string) (outboxTable, error) {
	table, err := parseTable(t.name)
	if err != nil {
		return outboxTable{}, fmt.Errorf("name %w", err)
	}
	if t.preset != "" {
		preset = t.preset
	}
	mapping, ok := decoder.Preset(preset)
	if !ok {
		return outboxTable{}, fmt.Errorf("preset of table %s must be %s, got %q%s", table, presetChoice(), preset, nearest(preset, decoder.PresetNames()))
	}
	for _, c := range t.columns {
		setColumn(&mapping, c)
	}
	if err := rename(&mapping, t.renamed); err != nil {
		return outboxTable{}, fmt.Errorf("table %s: %w", table, err)
	}
	if err := contradiction(mapping); err != nil {
		return outboxTable{}, fmt.Errorf("columns of table %s: %w", table, err)
	}
	table.Mapping = mapping
	return outboxTable{Table: table, preset: preset, custom: len(t.columns)+len(t.renamed) > 0}, nil
}

// supportOf names the first table, in whose schema the support tables are; no
// table in public if there is none.
func supportOf(tables []decoder.Table) sql.Outbox {
	if len(tables) == 0 {
		return sql.Outbox{Schema: "public"}
	}
	return sql.Outbox{Schema: tables[0].Schema, Name: tables[0].Name}
}

// fieldNames are the keys of the columns of a table.
func fieldNames() []string {
	return []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload", "metadata", "created_at"}
}

// columnsOf returns the columns of a mapping, in the order of fieldNames but for
// the id.
func columnsOf(m *decoder.Mapping) []*string {
	return []*string{&m.ID, &m.AggregateType, &m.AggregateID, &m.EventType, &m.Payload, &m.Metadata, &m.CreatedAt}
}

// setColumn puts a column in the place of the preset's.
func setColumn(m *decoder.Mapping, c describedColumn) {
	if c.field == "id" {
		m.IDColumns = nil
	}
	if len(c.names) > 1 {
		m.ID, m.IDColumns = "", c.names
		return
	}
	*columnsOf(m)[slices.Index(fieldNames(), c.field)] = c.names[0]
}

// rename gives columns their new names. What no field is served by has no need of
// one.
func rename(m *decoder.Mapping, pairs [][2]string) error {
	for _, pair := range pairs {
		if !slices.Contains(m.Columns(), pair[0]) {
			return fmt.Errorf("column %q of renamed serves nothing; leave it out, or correct it", pair[0])
		}
		if m.Renamed == nil {
			m.Renamed = make(map[string]string)
		}
		m.Renamed[pair[0]] = pair[1]
	}
	return nil
}

// contradiction finds a column that is given to two fields and cannot serve
// both. An id may well be that of the aggregate, or a type stand for another.
func contradiction(m decoder.Mapping) error {
	const alone = 4 // from the payload on, a column has one meaning
	columns, names := columnsOf(&m), fieldNames()
	for i := alone; i < len(columns); i++ {
		for j := range i {
			column := *columns[i]
			if column != "" && (column == *columns[j] || j == 0 && slices.Contains(m.IDColumns, column)) {
				return fmt.Errorf("column %q cannot be both %s and %s", column, names[j], names[i])
			}
		}
	}
	seen := make(map[string]bool)
	for _, column := range m.IDColumns {
		if seen[column] {
			return fmt.Errorf("column %q stands twice in id", column)
		}
		seen[column] = true
	}
	return nil
}

// presetChoice names the presets for a message.
func presetChoice() string {
	names := decoder.PresetNames()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// presetTable is the table of a preset that is not named otherwise.
func presetTable(preset string) string {
	switch preset {
	case decoder.PresetDebezium:
		return "public.outboxevent"
	case decoder.PresetOutboxMessages, decoder.PresetEventStore:
		return "public." + preset
	}
	return defaultTable
}

// readTables takes the list of tables from an argument or a variable, and decides
// between the two ways to name tables: the one from the higher source counts.
func (r *resolution) readTables() {
	list, names := findOption(r.options, "tables"), findOption(r.options, "table")
	if list == nil {
		return
	}
	if list.value != "" && list.source.kind != fromFile {
		faults := len(r.faults)
		list.tables = parseTableList(list.value, func(_ int, format string, args ...any) {
			r.faults = append(r.faults, errors.New("--tables: "+fmt.Sprintf(format, args...)))
		})
		if len(r.faults) == faults {
			list.value = tablesText(list.tables)
		}
	}
	switch {
	case list.value == "":
		if preset := findOption(r.options, "preset"); !names.IsSet() {
			names.value = presetTable(preset.value)
		}
	case !names.IsSet() || names.source.kind < list.source.kind:
		names.value, names.source = "", source{}
	case names.source.kind > list.source.kind:
		list.value, list.source, list.tables = "", source{}, nil
	default:
		r.fault("--table and --tables must not be given both; list every table under one of them")
	}
}

package decoder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Field is what a column of an outbox table means.
type Field int

// The fields of an event. Metadata and the creation time are optional, the
// others are not.
const (
	FieldID Field = iota
	FieldAggregateType
	FieldAggregateID
	FieldEventType
	FieldPayload
	FieldMetadata
	FieldCreatedAt
	fieldCount
)

// columns returns the default names of the columns that serve a field, of which
// the first one counts that a table has.
func (f Field) columns() []string {
	switch f {
	case FieldID:
		return []string{"event_id", "id"}
	case FieldAggregateType:
		return []string{"aggregate_type"}
	case FieldAggregateID:
		return []string{"aggregate_id"}
	case FieldEventType:
		return []string{"event_type"}
	case FieldPayload:
		return []string{"payload"}
	case FieldMetadata:
		return []string{"metadata"}
	case FieldCreatedAt:
		return []string{"created_at"}
	}
	return nil
}

// Table is an outbox table as configured.
type Table struct {
	OID    uint32 // 0 if not known
	Schema string
	Name   string
	// Mapping says which columns serve the fields of an event.
	Mapping Mapping
	// Needed are the columns that are needed beside those.
	Needed []Needed
}

// Needed is a column that a table has to have, and why.
type Needed struct {
	Column string
	// By is the setting that names the column, such as "--topic".
	By string
	// NotNull says that a column that can be NULL will not do.
	NotNull bool
	// Types, if there are any, are those that the column may have, by their
	// OIDs. Such a column serves a field, and counts under its new name too.
	Types []uint32
}

// Names returns the names under which the table may have a needed column.
func (t Table) Names(n Needed) []string {
	if len(n.Types) == 0 {
		return []string{n.Column}
	}
	return t.Mapping.withNewNames([]string{n.Column})
}

// String returns the table's name as it is written in SQL.
func (t Table) String() string { return pgx.Identifier{t.Schema, t.Name}.Sanitize() }

// MissingColumns returns the required columns that a table with the given
// columns lacks, each as the names that would serve, and who has named it.
func (t Table) MissingColumns(columns []string) []string {
	_, missing := t.index(named(columns))
	return missing
}

// Serving returns those of the columns that serve a field.
func (t Table) Serving(f Field, columns []string) []string {
	fields, _ := t.index(named(columns))
	var serving []string
	for _, i := range fields[f] {
		serving = append(serving, columns[i])
	}
	return serving
}

// named returns columns of which nothing but the names is known.
func named(names []string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		columns[i].Name = name
	}
	return columns
}

// index finds the columns that serve each field among those of a relation, and
// what is missing of all that is needed.
func (t Table) index(columns []Column) (fields [fieldCount][]int, missing []string) {
	fields, missing = t.Mapping.index(columns)
	for _, n := range t.Needed {
		names := t.Names(n)
		lack := strings.Join(names, " or ")
		if !slices.Contains(missing, lack) && !slices.ContainsFunc(columns, func(c Column) bool { return slices.Contains(names, c.Name) }) {
			missing = append(missing, fmt.Sprintf("%s, which %s names", lack, n.By))
		}
	}
	return fields, missing
}

// MappingError reports a table that lacks columns without which its rows
// cannot be published.
type MappingError struct {
	Table   Table
	Missing []string
}

// Error names the table, the columns and the remedy. Rows are decoded with the
// columns that the table had when they were written, so adding a column does not
// help those.
func (e *MappingError) Error() string {
	return fmt.Sprintf("table %s had no column %s when the next rows were written; if it was renamed, say so under \"renamed\" in --tables; else add what is missing, then pass those rows with \"outbox-cdc slot advance\"; nothing was skipped yet",
		e.Table, strings.Join(e.Missing, ", no column "))
}

// Column is one column of a relation.
type Column struct {
	Name string
	Type uint32 // OID of the type
}

// Relation is the shape of one of our tables as its latest Relation message
// gave it. It is immutable.
type Relation struct {
	OID uint32
	// Schema and Name are the relation's at the time of the rows; Table is what
	// it is configured as.
	Schema, Name string
	Table        Table
	Columns      []Column
	// Unreadable says that the rows are no events: they were to be made of
	// something that could not be understood, which their one column holds.
	Unreadable bool

	// fields holds the indexes of the columns that serve each field: none, one,
	// or those that the id is composed of.
	fields [fieldCount][]int
	// standIn is the aggregate type of a table that has no column for it.
	standIn []byte
}

// mapFields finds the columns by name. The error is a *MappingError.
func (r *Relation) mapFields() error {
	fields, missing := r.Table.index(r.Columns)
	if len(missing) > 0 {
		return &MappingError{Table: r.Table, Missing: missing}
	}
	r.fields = fields
	if len(fields[FieldAggregateType]) == 0 {
		r.standIn = []byte(r.Table.Name)
	}
	return nil
}

// FieldColumns returns the indexes of the columns that serve f: none, one, or
// those that the id is composed of. The caller must not change them.
func (r *Relation) FieldColumns(f Field) []int { return r.fields[f] }

// StandIn returns the name of the table if that stands for the aggregate type,
// and nil if a column does.
func (r *Relation) StandIn() []byte { return r.standIn }

// Column returns the index of the column of a name, -1 if there is none.
func (r *Relation) Column(name string) int {
	return slices.IndexFunc(r.Columns, func(c Column) bool { return c.Name == name })
}

// FieldType returns the OID of the type of the column that serves f, or 0 if
// none does or several do.
func (r *Relation) FieldType(f Field) uint32 {
	if columns := r.fields[f]; len(columns) == 1 {
		return r.Columns[columns[0]].Type
	}
	return 0
}

package decoder

import (
	"fmt"
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

// columns returns the names of the columns that may serve a field, the first one that the
// table has.
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

func (f Field) required() bool { return f <= FieldPayload }

// Table is an outbox table as configured.
type Table struct {
	OID    uint32 // 0 if not known
	Schema string
	Name   string
}

// String returns the table's name as it is written in SQL.
func (t Table) String() string { return pgx.Identifier{t.Schema, t.Name}.Sanitize() }

// MissingColumns returns the required columns that a table with the given
// columns lacks, each as the names that would serve.
func (t Table) MissingColumns(columns []string) []string {
	rel := Relation{Table: t}
	for _, name := range columns {
		rel.Columns = append(rel.Columns, Column{Name: name})
	}
	return rel.index()
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
	return fmt.Sprintf("table %s had no column %s when the next rows were written; add what is missing, then pass those rows with \"outbox-cdc slot advance\"; nothing was skipped yet",
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

	fields [fieldCount]int // index of the column that serves each field, or -1
}

// mapFields finds the columns by name. The error is a *MappingError.
func (r *Relation) mapFields() error {
	if missing := r.index(); len(missing) > 0 {
		return &MappingError{Table: r.Table, Missing: missing}
	}
	return nil
}

// index fills in fields and returns the required ones that no column serves.
func (r *Relation) index() (missing []string) {
	for f := range fieldCount {
		r.fields[f] = r.find(f.columns())
		if r.fields[f] < 0 && f.required() {
			missing = append(missing, strings.Join(f.columns(), " or "))
		}
	}
	return missing
}

func (r *Relation) find(names []string) int {
	for _, name := range names {
		for i, c := range r.Columns {
			if c.Name == name {
				return i
			}
		}
	}
	return -1
}

// FieldType returns the OID of the type of the column that serves f, or 0.
func (r *Relation) FieldType(f Field) uint32 {
	if i := r.fields[f]; i >= 0 {
		return r.Columns[i].Type
	}
	return 0
}

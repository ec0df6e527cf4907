package decoder

// Row is one inserted row, in the text form of PostgreSQL. Its bytes belong to
// whoever made it: a Chunk, or the buffer given to AppendTo.
type Row struct {
	relation *Relation
	tuple    []byte // TupleData of the protocol, checked when it was decoded
}

// Relation returns the shape of the row's table, nil for the zero Row.
func (r Row) Relation() *Relation { return r.relation }

// Bytes returns the size of the row.
func (r Row) Bytes() int { return len(r.tuple) }

// AppendTo copies the row to the end of b and returns the copy, which aliases
// the returned slice.
func (r Row) AppendTo(b []byte) (Row, []byte) {
	start := len(b)
	b = append(b, r.tuple...)
	return Row{relation: r.relation, tuple: b[start:len(b):len(b)]}, b
}

// Field returns the text of what serves f. It is nil if the column is NULL or
// absent, and not nil if it is an empty text. An id that is composed of several
// columns is memory of its own, anything else aliases the row.
func (r Row) Field(f Field) []byte {
	columns := r.relation.fields[f]
	switch len(columns) {
	case 0:
		if f == FieldAggregateType {
			return r.relation.standIn
		}
		return nil
	case 1:
		return r.column(columns[0])
	}
	composed := make([]byte, 0, 64)
	for i, index := range columns {
		value := r.column(index)
		if value == nil {
			return nil
		}
		if i > 0 {
			composed = append(composed, '/')
		}
		composed = append(composed, value...)
	}
	return composed
}

// column returns the text of a column, nil if it is NULL.
func (r Row) column(index int) []byte {
	c := cursor{rest: r.tuple}
	c.uint16()
	for range index {
		c.column()
	}
	value, null := c.column()
	if null || c.malformed {
		return nil
	}
	return value
}

// Columns calls yield with each column of the row in the order of the table.
// The value of a NULL is nil.
func (r Row) Columns(yield func(column Column, value []byte) bool) {
	c := cursor{rest: r.tuple}
	c.uint16()
	for _, column := range r.relation.Columns {
		value, _ := c.column()
		if c.malformed || !yield(column, value) {
			return
		}
	}
}

// Selection reads some columns of the rows of one relation, all in one pass.
type Selection struct {
	// slots tells, for each column up to the last one that is wanted, which of
	// the values it is; -1 is none.
	slots []int
}

// Select returns the selection of the columns with the given indexes. Each is
// named once.
func (r *Relation) Select(columns []int) Selection {
	var s Selection
	for slot, index := range columns {
		for len(s.slots) <= index {
			s.slots = append(s.slots, -1)
		}
		s.slots[index] = slot
	}
	return s
}

// Read sets values to the texts of the selected columns of a row, in the order in
// which they were selected; values has room for them. The text of a NULL is nil,
// an empty one is not. They alias the row, which must be of the relation that the
// selection was made for.
func (s Selection) Read(row Row, values [][]byte) {
	c := cursor{rest: row.tuple}
	c.uint16()
	for _, slot := range s.slots {
		if value, null := c.column(); slot >= 0 {
			if values[slot] = value; null {
				values[slot] = nil
			}
		}
	}
}

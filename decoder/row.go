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

// Field returns the text of the column that serves f. It is nil if the column
// is NULL or absent, and not nil if it is an empty text.
func (r Row) Field(f Field) []byte {
	want := r.relation.fields[f]
	if want < 0 {
		return nil
	}
	c := cursor{rest: r.tuple}
	c.uint16()
	for range want {
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

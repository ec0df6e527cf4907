package publisher

import (
	"encoding/hex"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// plan says where in the rows of one relation everything stands that routing and
// records need. It is immutable.
type plan struct {
	relation  *decoder.Relation
	selection decoder.Selection
	selected  []int // the columns of the selection

	id, aggregateType, aggregateID, eventType, payload, metadata source

	route route
	topic []piece
	// key and partition are what the two are made of, if that is a column.
	key, partition source
	headers        []header
	// contentType is the header for the value of a record.
	contentType []byte
}

// source is where a value of an event comes from.
type source struct {
	// slots are the selected columns that it is made of: none, one, or those
	// that the id is composed of.
	slots []int
	// bytea says that the column holds bytes in hex digits.
	bytea bool
	// fixed is the value if there are no slots; nil is NULL.
	fixed []byte
}

// piece is a literal of a topic's name with the placeholder in front of it.
type piece struct {
	source  source
	literal string
	// missing is why an event is poison for which the source is NULL.
	missing *Poison
}

// plans compiles a plan for each relation once. Any goroutine may use it.
type plans struct {
	routing routing
	form    form

	mu       sync.Mutex // guards compiled
	compiled map[*decoder.Relation]*plan
}

func newPlans(r routing, f form) *plans {
	return &plans{routing: r, form: f, compiled: make(map[*decoder.Relation]*plan)}
}

// of returns the plan for a relation.
func (ps *plans) of(relation *decoder.Relation) *plan {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.compiled[relation]
	if p == nil {
		p = ps.compile(relation)
		ps.compiled[relation] = p
	}
	return p
}

func (ps *plans) compile(relation *decoder.Relation) *plan {
	p := &plan{relation: relation, route: ps.routing.of(relation.Table), contentType: contentType(relation, ps.form.envelope)}
	p.id = p.field(decoder.FieldID)
	p.aggregateType = p.field(decoder.FieldAggregateType)
	p.aggregateID = p.field(decoder.FieldAggregateID)
	p.eventType = p.field(decoder.FieldEventType)
	p.payload = p.field(decoder.FieldPayload)
	p.metadata = p.field(decoder.FieldMetadata)
	p.topic = p.pieces(p.route.template)
	p.key = p.column(p.route.key.column)
	p.partition = p.column(p.route.partition.column)
	p.headers = p.profile(ps.form)
	p.selection = relation.Select(p.selected)
	return p
}

// pieces returns what a topic's name is put together from.
func (p *plan) pieces(t template) []piece {
	pieces := []piece{{source: source{fixed: []byte{}}, literal: t.literals[0]}}
	for i, held := range t.placeholders {
		next := piece{literal: t.literals[i+1], missing: poison(ReasonInvalidTopic, "the topic needs a column that is NULL")}
		switch held.kind {
		case ofField:
			next.source = p.field(held.field)
			if held.field == decoder.FieldAggregateType {
				next.missing = poison(ReasonNoAggregateType, "the topic needs the aggregate type, which is NULL")
			}
		case ofColumn:
			next.source = p.column(held.column)
			next.missing = poison(ReasonInvalidTopic, "the topic needs column %q, which is NULL", held.column)
		case ofTable:
			next.source.fixed = []byte(p.relation.Table.Name)
		case ofSchema:
			next.source.fixed = []byte(p.relation.Table.Schema)
		}
		pieces = append(pieces, next)
	}
	return pieces
}

// field returns the source of a field of the event.
func (p *plan) field(f decoder.Field) source {
	columns := p.relation.FieldColumns(f)
	if len(columns) == 0 && f == decoder.FieldAggregateType {
		return source{fixed: p.relation.StandIn()}
	}
	return p.source(columns...)
}

// column returns the source of a column of the table. One that is not there is
// always NULL.
func (p *plan) column(name string) source {
	if index := p.relation.Column(name); name != "" && index >= 0 {
		return p.source(index)
	}
	return source{}
}

// source selects columns.
func (p *plan) source(columns ...int) source {
	var s source
	for _, index := range columns {
		slot := slices.Index(p.selected, index)
		if slot < 0 {
			slot = len(p.selected)
			p.selected = append(p.selected, index)
		}
		s.slots = append(s.slots, slot)
		s.bytea = len(columns) == 1 && p.relation.Columns[index].Type == pgtype.ByteaOID
	}
	return s
}

// values are one row, taken apart by the plan of its relation. They are used for
// one row after the other, by one goroutine, and alias the row.
type values struct {
	plans   *plans
	plan    *plan
	columns [][]byte
	// made holds what does not stand in the row as it is.
	made arena

	id, aggregateID []byte
}

// read takes a row apart. What was read before is not valid any more, except for
// what was made.
func (v *values) read(row decoder.Row) {
	if relation := row.Relation(); v.plan == nil || v.plan.relation != relation {
		v.plan = v.plans.of(relation)
		v.columns = make([][]byte, len(v.plan.selected))
	}
	v.plan.selection.Read(row, v.columns)
	v.id = v.get(&v.plan.id)
	v.aggregateID = v.get(&v.plan.aggregateID)
}

// get returns a value: the raw bytes of a bytea column, the text form of any
// other. It is nil for NULL.
func (v *values) get(s *source) []byte {
	switch len(s.slots) {
	case 0:
		return s.fixed
	case 1:
		if s.bytea {
			return v.raw(v.columns[s.slots[0]])
		}
		return v.columns[s.slots[0]]
	}
	return v.composed(s)
}

// null reports whether a source is NULL.
func (v *values) null(s *source) bool {
	return len(s.slots) == 0 && s.fixed == nil || slices.ContainsFunc(s.slots, func(slot int) bool { return v.columns[slot] == nil })
}

// composed joins the columns that the id is composed of.
func (v *values) composed(s *source) []byte {
	n := len(s.slots)
	for _, slot := range s.slots {
		if v.columns[slot] == nil {
			return nil
		}
		n += len(v.columns[slot])
	}
	b := v.made.begin(n)
	for i, slot := range s.slots {
		if i > 0 {
			b = append(b, '/')
		}
		b = append(b, v.columns[slot]...)
	}
	return v.made.end(b)
}

// raw returns the bytes of a bytea, or its text if that is not in the hex form
// that the session asks for; wellFormed tells.
func (v *values) raw(text []byte) []byte {
	if len(text) < 2 {
		return text
	}
	b, err := hex.AppendDecode(v.made.begin(hex.DecodedLen(len(text)-2)), text[2:])
	if err != nil {
		return text
	}
	return v.made.end(b)
}

// wellFormed reports whether a source that is a bytea column is in the hex form
// that the session asks for.
func (v *values) wellFormed(s *source) bool {
	if !s.bytea || v.columns[s.slots[0]] == nil {
		return true
	}
	text := v.columns[s.slots[0]]
	return len(text)%2 == 0 && len(text) >= 2 && text[0] == '\\' && text[1] == 'x'
}

// isJSON reports whether the database vouches that a source is well-formed JSON.
func (p *plan) isJSON(s *source) bool {
	if len(s.slots) != 1 {
		return false
	}
	t := p.relation.Columns[p.selected[s.slots[0]]].Type
	return t == pgtype.JSONOID || t == pgtype.JSONBOID
}

// eventID returns the id of a row, for those who need no more of it.
func eventID(row decoder.Row) []byte {
	id := row.Field(decoder.FieldID)
	if row.Relation().FieldType(decoder.FieldID) != pgtype.ByteaOID || len(id) < 2 {
		return id
	}
	raw, err := hex.AppendDecode([]byte{}, id[2:])
	if err != nil {
		return id
	}
	return raw
}

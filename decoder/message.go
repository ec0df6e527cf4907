package decoder

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

// messageSchema stands for the schema in the names of the relations of messages.
const messageSchema = "pg_logical_emit_message"

// messages makes events of the logical messages with one prefix, as
// pg_logical_emit_message writes them: the content is a JSON object with the
// fields of an event.
type messages struct {
	prefix string
	// relation is the shape of the rows that are made of messages, unreadable
	// that of those whose content is no event.
	relation, unreadable *Relation
	content              messageContent
	tuple                []byte // scratch
	// stray counts those that belong to no transaction.
	stray uint64
}

// messageContent is the content of a message. Its memory is used again.
type messageContent struct {
	EventID       json.RawMessage `json:"event_id"`
	ID            json.RawMessage `json:"id"`
	AggregateType json.RawMessage `json:"aggregate_type"`
	AggregateID   json.RawMessage `json:"aggregate_id"`
	EventType     json.RawMessage `json:"event_type"`
	Payload       json.RawMessage `json:"payload"`
	Metadata      json.RawMessage `json:"metadata"`
}

// AcceptMessages has transactional logical messages with a prefix be events: rows
// of a table that has the prefix for its name. It is called before the first
// Decode. The stream must have been started with the option messages.
func (d *Decoder) AcceptMessages(prefix string) {
	table := Table{Schema: messageSchema, Name: prefix}
	relation := &Relation{Schema: table.Schema, Name: table.Name, Table: table}
	for _, f := range []Field{FieldID, FieldAggregateType, FieldAggregateID, FieldEventType, FieldPayload, FieldMetadata} {
		column := Column{Name: f.columns()[len(f.columns())-1], Type: pgtype.TextOID}
		if f == FieldPayload || f == FieldMetadata {
			column.Type = pgtype.JSONOID
		}
		relation.fields[f] = []int{len(relation.Columns)}
		relation.Columns = append(relation.Columns, column)
	}
	d.messages = &messages{
		prefix: prefix, relation: relation,
		unreadable: &Relation{
			Schema: table.Schema, Name: table.Name, Table: table, Unreadable: true,
			Columns: []Column{{Name: "content", Type: pgtype.ByteaOID}},
		},
	}
}

// StrayMessages returns how many messages with the prefix were met that are not
// transactional. They have no place in the order of commits, and are passed over.
func (d *Decoder) StrayMessages() uint64 {
	if d.messages == nil {
		return 0
	}
	return d.messages.stray
}

// message counts a transactional logical message: it has its place among the
// rows. One that is not transactional may arrive anywhere, and counts nowhere.
func (d *Decoder) message(r *cursor, c *Chunk) error {
	transactional := r.uint8()&1 != 0
	r.uint64() // LSN
	prefix := r.text()
	content := r.next(r.uint32())
	r.end()
	if r.malformed {
		return nil
	}
	ours := d.messages != nil && string(prefix) == d.messages.prefix
	if !transactional {
		if ours {
			d.messages.stray++
		}
		return nil
	}
	if !d.tx.open {
		return fmt.Errorf("%w: transactional message outside a transaction", ErrMalformed)
	}
	position := d.next()
	if ours {
		d.tx.events = true
		c.event(d.messages.row(content), position)
	}
	return nil
}

// row makes a row of the content of a message, valid until the next call.
func (m *messages) row(content []byte) Row {
	if m.read(content) {
		return Row{relation: m.relation, tuple: m.tuple}
	}
	// In hex digits, as it may be anything.
	m.begin(1)
	m.tuple = append(m.tuple, tagText)
	m.tuple = binary.BigEndian.AppendUint32(m.tuple, uint32(len(`\x`)+hex.EncodedLen(len(content))))
	m.tuple = hex.AppendEncode(append(m.tuple, `\x`...), content)
	return Row{relation: m.unreadable, tuple: m.tuple}
}

// read makes a tuple of the fields of an object, and returns false if content is
// none.
func (m *messages) read(content []byte) bool {
	o := &m.content
	fields := []*json.RawMessage{&o.ID, &o.AggregateType, &o.AggregateID, &o.EventType, &o.Payload, &o.Metadata, &o.EventID}
	for _, f := range fields {
		*f = (*f)[:0]
	}
	if !bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n"), []byte("{")) || json.Unmarshal(content, o) != nil {
		return false
	}
	if !isNull(o.EventID) {
		o.ID, o.EventID = o.EventID, o.ID
	}
	m.begin(len(m.relation.Columns))
	for i, column := range m.relation.Columns {
		value := []byte(*fields[i])
		switch {
		case isNull(value):
			m.tuple = append(m.tuple, tagNull)
			continue
		case column.Type != pgtype.JSONOID:
			var ok bool
			if value, ok = scalar(value); !ok {
				return false
			}
		}
		m.tuple = append(m.tuple, tagText)
		m.tuple = append(binary.BigEndian.AppendUint32(m.tuple, uint32(len(value))), value...)
	}
	return true
}

func (m *messages) begin(columns int) {
	m.tuple = binary.BigEndian.AppendUint16(m.tuple[:0], uint16(columns))
}

func isNull(value []byte) bool { return len(value) == 0 || string(value) == "null" }

// scalar returns the text of a JSON value, and false for an object, an array, and
// a text that PostgreSQL could not hold.
func scalar(value []byte) (text []byte, ok bool) {
	switch value[0] {
	case '{', '[':
		return nil, false
	case '"':
		var s string
		if json.Unmarshal(value, &s) != nil || bytes.IndexByte([]byte(s), 0) >= 0 {
			return nil, false
		}
		return []byte(s), true
	}
	return value, true
}

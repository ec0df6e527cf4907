package publisher

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Record headers of the plain profile.
const (
	eventIDHeader       = "event_id"
	eventTypeHeader     = "event_type"
	aggregateTypeHeader = "aggregate_type"
	aggregateIDHeader   = "aggregate_id"
	contentTypeHeader   = "content-type"
)

// record is one event held until it is acknowledged. The row is in the memory
// of the batch that holds the record; what goes on the wire is made from it
// when the batch is sent.
type record struct {
	row      decoder.Row
	position decoder.Position
	segment  checkpoint.Segment
}

// recordOverhead is what a record costs beside its row.
const recordOverhead = 72

// wireBytes estimates the size of the record in a batch before compression.
func (r record) wireBytes() int {
	// The names of the headers, the position and the origin come on top of
	// the row; aggregate and event id stand in it once and in the record twice.
	const headers = 192
	return r.row.Bytes() + headers
}

// text returns a field of a row as bytes: the raw bytes of a bytea column, the
// text form of any other. judge has checked that they can be had.
func text(row decoder.Row, field decoder.Field) []byte {
	value := row.Field(field)
	if row.Relation().FieldType(field) != pgtype.ByteaOID || len(value) < 2 {
		return value
	}
	raw := make([]byte, hex.DecodedLen(len(value)-2))
	if _, err := hex.Decode(raw, value[2:]); err != nil {
		return value
	}
	return raw
}

// checkBytea reports a bytea that is not in the hex form that the session
// asks for.
func checkBytea(row decoder.Row) error {
	for _, field := range []decoder.Field{decoder.FieldID, decoder.FieldAggregateID, decoder.FieldPayload} {
		value := row.Field(field)
		if value == nil || row.Relation().FieldType(field) != pgtype.ByteaOID {
			continue
		}
		if len(value)%2 != 0 || !bytes.HasPrefix(value, []byte(`\x`)) {
			return fmt.Errorf("a bytea column does not hold hex digits")
		}
	}
	return nil
}

func keyOf(key Key, row decoder.Row) []byte {
	if key == KeyAggregateID {
		return text(row, decoder.FieldAggregateID)
	}
	return text(row, decoder.FieldID)
}

// content types by the type of the payload's column.
const (
	contentJSON  = "application/json"
	contentBytes = "application/octet-stream"
	contentText  = "text/plain; charset=utf-8"
)

func contentType(row decoder.Row) string {
	switch row.Relation().FieldType(decoder.FieldPayload) {
	case pgtype.JSONOID, pgtype.JSONBOID:
		return contentJSON
	case pgtype.ByteaOID:
		return contentBytes
	}
	return contentText
}

// headerWriter makes the headers of the records of one batch, in memory that it
// takes in large pieces.
type headerWriter struct {
	// origin is nil if the records are not to be recognised again.
	origin  []byte
	headers []sarama.RecordHeader
	// texts holds what has to be made for a record: names and positions.
	texts []byte
}

func newHeaderWriter(records int, origin []byte) *headerWriter {
	const headers, texts = 7, 160 // of a record without metadata
	return &headerWriter{
		origin:  origin,
		headers: make([]sarama.RecordHeader, 0, headers*records),
		texts:   make([]byte, 0, texts*records),
	}
}

// write adds the headers of a record in a fixed order, so that a redelivered
// record is the same.
func (w *headerWriter) write(r record) {
	w.add(eventIDHeader, text(r.row, decoder.FieldID))
	w.add(eventTypeHeader, r.row.Field(decoder.FieldEventType))
	w.add(aggregateTypeHeader, r.row.Field(decoder.FieldAggregateType))
	w.add(aggregateIDHeader, text(r.row, decoder.FieldAggregateID))
	if r.row.Field(decoder.FieldPayload) != nil {
		w.add(contentTypeHeader, w.copy(contentType(r.row)))
	}
	if w.origin != nil {
		start := len(w.texts)
		w.texts = r.position.Append(w.texts)
		w.add(positionHeader, w.texts[start:len(w.texts):len(w.texts)])
		w.add(originHeader, w.origin)
	}
	if metadata := r.row.Field(decoder.FieldMetadata); metadata != nil {
		// judge has read it once; what it refused is not here.
		_ = eachMetadata(metadata, func(key, value []byte) {
			if !reserved(string(key)) {
				w.headers = append(w.headers, sarama.RecordHeader{Key: key, Value: value})
			}
		})
	}
}

// add adds a header, unless the value is NULL.
func (w *headerWriter) add(name string, value []byte) {
	if value != nil {
		w.headers = append(w.headers, sarama.RecordHeader{Key: w.copy(name), Value: value})
	}
}

func (w *headerWriter) copy(s string) []byte {
	start := len(w.texts)
	w.texts = append(w.texts, s...)
	return w.texts[start:len(w.texts):len(w.texts)]
}

// reserved reports whether a header's name is ours. The application's of that
// name is left out.
func reserved(name string) bool {
	switch name {
	case eventIDHeader, eventTypeHeader, aggregateTypeHeader, aggregateIDHeader, contentTypeHeader, positionHeader, originHeader:
		return true
	}
	return false
}

// eachMetadata calls f with each key of a JSON object, in order: a string as it
// is, anything else as its JSON text.
func eachMetadata(metadata []byte, f func(key, value []byte)) error {
	d := json.NewDecoder(bytes.NewReader(metadata))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("metadata is not a JSON object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("read metadata: %w", err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("read metadata: %w", err)
		}
		value := []byte(raw)
		if raw[0] == '"' {
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("read metadata: %w", err)
			}
			value = []byte(s)
		}
		f([]byte(key.(string)), value)
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("metadata holds more than one JSON value")
	}
	return nil
}

package publisher

import (
	"unsafe"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// record is one event held until it is acknowledged. The row is in the memory
// of the batch that holds the record; what goes on the wire is made from it
// when the batch is sent.
type record struct {
	row      decoder.Row
	position decoder.Position
	segment  checkpoint.Segment
}

// recordBytes is what a record costs beside its row.
const recordBytes = int64(unsafe.Sizeof(record{}))

// wireBytes estimates the size of the record in a batch before compression.
func (r record) wireBytes() int {
	// The names of the headers, the position and the origin come on top of
	// the row; aggregate and event id stand in it once and in the record twice.
	const headers = 192
	return r.row.Bytes() + headers
}

// content types by the type of the payload's column.
const (
	contentJSON  = "application/json"
	contentBytes = "application/octet-stream"
	contentText  = "text/plain; charset=utf-8"
	contentXML   = "application/xml"
)

func contentType(relation *decoder.Relation, envelope bool) []byte {
	if envelope {
		return []byte(contentJSON)
	}
	switch relation.FieldType(decoder.FieldPayload) {
	case pgtype.JSONOID, pgtype.JSONBOID:
		return []byte(contentJSON)
	case pgtype.ByteaOID:
		return []byte(contentBytes)
	case pgtype.XMLOID:
		return []byte(contentXML)
	}
	return []byte(contentText)
}

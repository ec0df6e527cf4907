package replication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pglogrepl"
)

// errFraming reports bytes that are not a message of the PostgreSQL protocol,
// or one that cannot occur in a replication stream.
var errFraming = errors.New("malformed replication message")

// Message types of the PostgreSQL protocol (manual, "Message Formats") and of
// the streaming replication protocol inside CopyData ("Streaming Replication
// Protocol").
const (
	msgCopyData        = 'd'
	msgCopyDone        = 'c'
	msgCommandComplete = 'C'
	msgErrorResponse   = 'E'
	msgNoticeResponse  = 'N'
	msgParameterStatus = 'S'
	msgReadyForQuery   = 'Z'
	msgTerminate       = 'X'

	copyXLogData  = 'w'
	copyKeepalive = 'k'
	copyStatus    = 'r'
)

const (
	headerBytes = 5 // type, and the length of what follows including itself
	// maxMessageBytes is beyond what a server can send: a palloc'd message of
	// at most 1 GiB.
	maxMessageBytes = 1<<30 + 64

	xlogDataBytes  = 1 + 8 + 8 + 8
	keepaliveBytes = 1 + 8 + 8 + 1
	statusBytes    = 1 + 8 + 8 + 8 + 8 + 1
)

// postgresEpoch is 2000-01-01, from which the server counts its timestamps.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// message is one message of the protocol. Its body is valid until the next
// read.
type message struct {
	kind byte
	body []byte
}

// splitMessage takes the first message off b. size is the whole message's, 0
// while not even the header is there; complete says whether all of it is.
func splitMessage(b []byte) (m message, size int, complete bool, err error) {
	if len(b) < headerBytes {
		return message{}, 0, false, nil
	}
	length := binary.BigEndian.Uint32(b[1:])
	if length < 4 || length > maxMessageBytes {
		return message{}, 0, false, fmt.Errorf("%w: type 0x%02x with length %d", errFraming, b[0], length)
	}
	size = 1 + int(length)
	if len(b) < size {
		return message{}, size, false, nil
	}
	return message{kind: b[0], body: b[headerBytes:size]}, size, true, nil
}

// xlogData is a piece of the logical stream. Start is the LSN of the message
// in it, 0 for those that have none.
type xlogData struct {
	start pglogrepl.LSN
	data  []byte
}

func parseXLogData(b []byte) (xlogData, error) {
	if len(b) < xlogDataBytes {
		return xlogData{}, fmt.Errorf("%w: XLogData of %d bytes", errFraming, len(b))
	}
	return xlogData{start: pglogrepl.LSN(binary.BigEndian.Uint64(b[1:])), data: b[xlogDataBytes:]}, nil
}

// keepalive is the server's position, and whether it wants to hear from us.
type keepalive struct {
	walEnd         pglogrepl.LSN
	replyRequested bool
}

func parseKeepalive(b []byte) (keepalive, error) {
	if len(b) < keepaliveBytes {
		return keepalive{}, fmt.Errorf("%w: keepalive of %d bytes", errFraming, len(b))
	}
	return keepalive{walEnd: pglogrepl.LSN(binary.BigEndian.Uint64(b[1:])), replyRequested: b[keepaliveBytes-1] != 0}, nil
}

// status is a Standby Status Update. The flush position is what moves the
// slot.
type status struct {
	write, flush   pglogrepl.LSN
	at             time.Time
	replyRequested bool
}

// append appends the status as a whole CopyData message.
func (s status) append(b []byte) []byte {
	b = append(b, msgCopyData)
	b = binary.BigEndian.AppendUint32(b, 4+statusBytes)
	b = append(b, copyStatus)
	b = binary.BigEndian.AppendUint64(b, uint64(s.write))
	b = binary.BigEndian.AppendUint64(b, uint64(s.flush))
	b = binary.BigEndian.AppendUint64(b, uint64(s.flush)) // applied
	b = binary.BigEndian.AppendUint64(b, uint64(s.at.Sub(postgresEpoch).Microseconds()))
	if s.replyRequested {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendEmpty appends a message without a body.
func appendEmpty(b []byte, kind byte) []byte {
	return append(b, kind, 0, 0, 0, 4)
}

// exactReader reads for pgproto3 and never beyond the message that it is in.
// pgproto3 reads ahead, and what it had read would be lost when the stream
// takes the connection over.
type exactReader struct {
	src    io.Reader
	header [headerBytes]byte
	have   int // bytes of the header
	rest   int // bytes of the message that are still to come
}

func (r *exactReader) Read(p []byte) (int, error) {
	if r.rest > 0 {
		n, err := r.src.Read(p[:min(len(p), r.rest)])
		r.rest -= n
		return n, err
	}
	n, err := r.src.Read(p[:min(len(p), headerBytes-r.have)])
	copy(r.header[r.have:], p[:n])
	if r.have += n; r.have == headerBytes {
		r.have = 0
		r.rest = max(0, int(binary.BigEndian.Uint32(r.header[1:]))-4)
	}
	return n, err
}

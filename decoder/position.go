package decoder

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/jackc/pglogrepl"
)

// Position says where in the history of one server an event stands. It is the
// same on every delivery of the event and differs between any two events.
type Position struct {
	// CommitLSN is the start of the commit record of the event's transaction.
	// It grows from transaction to transaction in the order of the stream.
	CommitLSN pglogrepl.LSN
	// Index counts the inserts and transactional messages of the transaction
	// from 0, as the server sends them, those of other tables included.
	Index uint32
	// CommitTime is in microseconds since the Unix epoch. It takes no part in
	// the order; it tells two histories of one server apart that used the same
	// LSNs, as after a restored backup.
	CommitTime int64
}

// positionLength is the length of the text form: 16, 8 and 16 hex digits.
const positionLength = 16 + 1 + 8 + 1 + 16

// String returns the text form, as it stands in the record header: commit LSN,
// index and commit time in hex digits of fixed width, so that the order of the
// texts is the order of the positions.
func (p Position) String() string { return string(p.Append(nil)) }

// Append appends the text form to b.
func (p Position) Append(b []byte) []byte {
	b = appendHex(b, uint64(p.CommitLSN), 16)
	b = appendHex(append(b, '-'), uint64(p.Index), 8)
	return appendHex(append(b, '-'), uint64(p.CommitTime), 16)
}

// ParsePosition reads the text form, and nothing but what String writes.
func ParsePosition(s string) (Position, error) {
	if len(s) != positionLength || s[16] != '-' || s[25] != '-' {
		return Position{}, fmt.Errorf("%q is not a position", s)
	}
	lsn, ok1 := parseHex(s[:16])
	index, ok2 := parseHex(s[17:25])
	commitTime, ok3 := parseHex(s[26:])
	if !ok1 || !ok2 || !ok3 {
		return Position{}, fmt.Errorf("%q is not a position", s)
	}
	return Position{CommitLSN: pglogrepl.LSN(lsn), Index: uint32(index), CommitTime: int64(commitTime)}, nil
}

// hexDigits are in lower case only: the upper case has another order as text.
const hexDigits = "0123456789abcdef"

func appendHex(b []byte, v uint64, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, hexDigits[v>>shift&0xf])
	}
	return b
}

func parseHex(s string) (v uint64, ok bool) {
	for i := range len(s) {
		digit := strings.IndexByte(hexDigits, s[i])
		if digit < 0 {
			return 0, false
		}
		v = v<<4 | uint64(digit)
	}
	return v, true
}

// Compare returns -1, 0 or 1 as p stands before, at or behind q in the stream.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.CommitLSN, q.CommitLSN), cmp.Compare(p.Index, q.Index))
}

// IsZero reports whether p is the zero value, which no event has.
func (p Position) IsZero() bool { return p == Position{} }

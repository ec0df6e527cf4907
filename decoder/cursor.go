package decoder

import (
	"bytes"
	"encoding/binary"
)

// Tags of a column in a tuple.
const (
	tagNull = 'n'
	tagText = 't'
)

// cursor reads a message from front to back. A read beyond the end sets
// malformed and yields zero, as does every read after it, so that callers check
// once.
type cursor struct {
	rest      []byte
	malformed bool
}

func (r *cursor) next(n uint32) []byte {
	if r.malformed || uint64(n) > uint64(len(r.rest)) {
		r.malformed = true
		return nil
	}
	v := r.rest[:n]
	r.rest = r.rest[n:]
	return v
}

func (r *cursor) uint8() uint8 {
	if v := r.next(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *cursor) uint16() uint16 {
	if v := r.next(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (r *cursor) uint32() uint32 {
	if v := r.next(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (r *cursor) uint64() uint64 {
	if v := r.next(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// end requires that nothing follows. What the server did not promise is not
// guessed at.
func (r *cursor) end() {
	if len(r.rest) > 0 {
		r.malformed = true
	}
}

// string is text, copied.
func (r *cursor) string() string { return string(r.text()) }

// text reads up to and including a zero byte, and returns what is before it.
func (r *cursor) text() []byte {
	i := bytes.IndexByte(r.rest, 0)
	if r.malformed || i < 0 {
		r.malformed = true
		return nil
	}
	s := r.rest[:i]
	r.rest = r.rest[i+1:]
	return s
}

// column reads one column of a tuple; null tells NULL from an empty text. Only
// the text form is asked for, and an unchanged out-of-line value cannot occur
// in an INSERT, so any other tag is wrong.
func (r *cursor) column() (value []byte, null bool) {
	switch r.uint8() {
	case tagNull:
		return nil, true
	case tagText:
		return r.next(r.uint32()), false
	}
	r.malformed = true
	return nil, true
}

// tuple reads a whole tuple and returns its number of columns.
func (r *cursor) tuple() int {
	n := int(r.uint16())
	for i := 0; i < n && !r.malformed; i++ {
		r.column()
	}
	return n
}

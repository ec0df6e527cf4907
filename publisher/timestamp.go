package publisher

import (
	"bytes"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Timestamp is what the timestamp of a record says.
type Timestamp string

// The timestamps: when the event was committed, when it was created by its
// created_at column, or when it was sent first.
const (
	TimestampCommit    Timestamp = "commit"
	TimestampCreatedAt Timestamp = "created_at"
	TimestampPublish   Timestamp = "publish"
)

// stamp gives the records of a batch their timestamps, the same ones in each
// attempt to send them.
type stamp struct {
	how  Timestamp
	sent int64 // when the batch was sent first, in µs since 1970
}

// of returns the timestamp of a record, in µs since 1970.
func (s stamp) of(r *record) int64 {
	switch s.how {
	case TimestampCreatedAt:
		return eventTime(r)
	case TimestampPublish:
		return s.sent
	}
	return r.position.CommitTime
}

// timeTypes are the types that eventTime understands, by their OIDs.
func timeTypes() []uint32 {
	return []uint32{pgtype.TimestamptzOID, pgtype.TimestampOID, pgtype.DateOID, pgtype.Int8OID}
}

// lastTime is the end of the year 9999, in µs since 1970.
const lastTime = 253402300800_000_000 - 1

// eventTime returns when an event was created, in µs since 1970. Its created_at
// column may be a timestamptz, a timestamp or a date, which are taken for UTC, or
// the milliseconds since 1970 in a bigint. If it says anything but a time from
// 1970 to 9999 (NULL, infinity), the event was created when it was committed.
func eventTime(r *record) int64 {
	text := r.row.Field(decoder.FieldCreatedAt)
	if text == nil {
		return r.position.CommitTime
	}
	var at int64
	var ok bool
	switch r.row.Relation().FieldType(decoder.FieldCreatedAt) {
	case pgtype.TimestamptzOID:
		at, ok = parseTimestamp(text)
	case pgtype.TimestampOID:
		at, ok = parseClock(text)
	case pgtype.DateOID:
		at, ok = parseDate(text)
	case pgtype.Int8OID:
		var n int
		n, ok = digits(text)
		ok = ok && len(text) > 0 && len(text) <= len("253402300799999")
		at = int64(n) * 1000
	}
	if !ok || at < 0 || at > lastTime {
		return r.position.CommitTime
	}
	return at
}

// createdAt is eventTime for the metric that tells how old events are when they
// are acknowledged. A timestamp without a zone says nothing about when that was,
// so it counts from the commit. It does not allocate.
func createdAt(r *record) int64 {
	if r.row.Relation().FieldType(decoder.FieldCreatedAt) == pgtype.TimestamptzOID {
		if at, ok := parseTimestamp(r.row.Field(decoder.FieldCreatedAt)); ok {
			return at
		}
	}
	return r.position.CommitTime
}

// parseTimestamp reads a time as a session in UTC with datestyle ISO prints it,
// 2006-01-02 15:04:05.999999+00, to microseconds since 1970. Those out of its
// range (infinity, before Christ, beyond the year 9999) are none.
func parseTimestamp(text []byte) (int64, bool) {
	clock, ok := bytes.CutSuffix(text, []byte("+00"))
	if !ok {
		return 0, false
	}
	return parseClock(clock)
}

// parseClock is parseTimestamp for a time without a zone, which is taken for UTC.
func parseClock(text []byte) (int64, bool) {
	const date = len("2006-01-02 15:04:05")
	if len(text) < date {
		return 0, false
	}
	var part [6]int
	at := 0
	for i, width := range [6]int{4, 2, 2, 2, 2, 2} {
		n, ok := digits(text[at : at+width])
		at += width
		if !ok || at < date && text[at] != "-- ::"[i] {
			return 0, false
		}
		part[i], at = n, at+1
	}
	micros := 0
	if fraction := text[date:]; len(fraction) > 0 {
		n, ok := digits(fraction[1:])
		if !ok || fraction[0] != '.' || len(fraction) < 2 || len(fraction) > 7 {
			return 0, false
		}
		for range 7 - len(fraction) {
			n *= 10
		}
		micros = n
	}
	seconds := time.Date(part[0], time.Month(part[1]), part[2], part[3], part[4], part[5], 0, time.UTC).Unix()
	return seconds*1e6 + int64(micros), true
}

// parseDate reads a date, 2006-01-02, as the µs since 1970 of its beginning.
func parseDate(text []byte) (int64, bool) {
	if len(text) != len("2006-01-02") || text[4] != '-' || text[7] != '-' {
		return 0, false
	}
	year, ok1 := digits(text[:4])
	month, ok2 := digits(text[5:7])
	day, ok3 := digits(text[8:])
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).UnixMicro(), ok1 && ok2 && ok3
}

// digits reads a number without a sign.
func digits(text []byte) (n int, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// timeBytes is room for a time as appendTime writes it.
const timeBytes = len("2006-01-02T15:04:05.000000Z")

// appendTime appends a time in µs since 1970 as RFC 3339 has it, in UTC.
func appendTime(b []byte, micros int64) []byte {
	return time.UnixMicro(micros).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
}

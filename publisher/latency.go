package publisher

import (
	"bytes"
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// timestamptz is the OID of timestamp with time zone (pg_type.dat). A timestamp
// without one says nothing about when that was.
const timestamptz = 1184

// createdAt returns when an event was created, in microseconds since 1970: what
// its created_at column says, or else when it was committed. It does not
// allocate.
func createdAt(r *record) int64 {
	if r.row.Relation().FieldType(decoder.FieldCreatedAt) == timestamptz {
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

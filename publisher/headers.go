package publisher

import (
	"bytes"
	"slices"

	"github.com/IBM/sarama"
)

// maxHeaderName is how long the name of a header may be, in bytes.
const maxHeaderName = 255

// headerWriter makes the headers of one record after the other, in memory that
// it keeps.
type headerWriter struct {
	values
	// origin is nil if the records are not to be recognised again.
	origin  []byte
	headers []sarama.RecordHeader
	leftOut leftOut
}

// leftOut counts the headers of the application that were left out.
type leftOut struct {
	reserved int // the name is ours
	unnamed  int // the name is no name for a header
	untraced int // a traceparent that is none, or a tracestate without one
}

// positionBytes is room for the text of a position.
const positionBytes = 48

// of returns the headers of a record in a fixed order, so that a redelivered
// record is the same. The row of the record is read into the values. All are
// valid until the next call.
func (w *headerWriter) of(r *record) []sarama.RecordHeader {
	w.headers = w.headers[:0]
	w.made.reset()
	w.read(r.row)
	for i := range w.plan.headers {
		w.write(&w.plan.headers[i], r)
	}
	if metadata := w.get(&w.plan.metadata); metadata != nil {
		w.spread(metadata)
	}
	w.trace()
	return w.headers
}

func (w *headerWriter) write(h *header, r *record) {
	switch h.kind {
	case headerSource:
		w.add(h.name, w.get(&h.source))
	case headerID:
		w.add(h.name, w.id)
	case headerAggregateID:
		w.add(h.name, w.aggregateID)
	case headerContentType:
		if !w.null(&w.plan.payload) {
			w.add(h.name, w.plan.contentType)
		}
	case headerTime:
		w.add(h.name, w.made.end(appendTime(w.made.begin(timeBytes), eventTime(r))))
	case headerPosition:
		if w.origin != nil {
			w.add(h.name, w.made.end(r.position.Append(w.made.begin(positionBytes))))
		}
	case headerOrigin:
		w.add(h.name, w.origin)
	}
}

// spread makes headers of the members of metadata; judge has seen that it is an
// object. Values go out as they are: Kafka takes any bytes.
func (w *headerWriter) spread(metadata []byte) {
	for m := (members{rest: metadata, made: &w.made}); m.next(); {
		switch {
		case !validHeader(m.name):
			w.leftOut.unnamed++
		case w.plans.form.reserved[string(m.name)]:
			w.leftOut.reserved++
		default:
			w.add(m.name, m.value)
		}
	}
}

// trace leaves out a traceparent that is none, and with it the tracestate, which
// says nothing by itself (W3C Trace Context, section 3.3).
func (w *headerWriter) trace() {
	traced := false
	state := false
	w.headers = slices.DeleteFunc(w.headers, func(h sarama.RecordHeader) bool {
		switch string(h.Key) {
		case "traceparent":
			if !validTraceparent(h.Value) {
				w.leftOut.untraced++
				return true
			}
			traced = true
		case "tracestate":
			state = true
		}
		return false
	})
	if state && !traced {
		w.leftOut.untraced++
		w.headers = slices.DeleteFunc(w.headers, func(h sarama.RecordHeader) bool { return string(h.Key) == "tracestate" })
	}
}

// add adds a header, unless the value is NULL.
func (w *headerWriter) add(name, value []byte) {
	if value != nil {
		w.headers = append(w.headers, sarama.RecordHeader{Key: name, Value: value})
	}
}

// validHeader reports whether a header may have a name.
func validHeader(name []byte) bool {
	return len(name) > 0 && len(name) <= maxHeaderName && bytes.IndexFunc(name, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) < 0
}

// validTraceparent reports whether a text is a traceparent (W3C Trace Context,
// section 3.2): version, trace id, parent id and flags in lower-case hex digits.
// Versions behind 00 may add to it.
func validTraceparent(text []byte) bool {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return false
	}
	version := text[:2]
	if string(version) == "00" && len(text) > length || len(text) > length && text[length] != '-' || string(version) == "ff" {
		return false
	}
	return lowerHex(version) && lowerHex(text[3:35]) && lowerHex(text[36:52]) && lowerHex(text[53:length]) && notZero(text[3:35]) && notZero(text[36:52])
}

func lowerHex(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func notZero(text []byte) bool {
	return bytes.IndexFunc(text, func(r rune) bool { return r != '0' }) >= 0
}

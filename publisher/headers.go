package publisher

import "github.com/IBM/sarama"

// Record headers of the plain profile.
const (
	eventIDHeader       = "event_id"
	eventTypeHeader     = "event_type"
	aggregateTypeHeader = "aggregate_type"
	aggregateIDHeader   = "aggregate_id"
	contentTypeHeader   = "content-type"
)

// headerNames are the names as they go on the wire. They are shared by all
// records.
var headerNames = struct{ eventID, eventType, aggregateType, aggregateID, contentType, position, origin []byte }{
	[]byte(eventIDHeader), []byte(eventTypeHeader), []byte(aggregateTypeHeader), []byte(aggregateIDHeader), []byte(contentTypeHeader),
	[]byte(positionHeader), []byte(originHeader),
}

// headerWriter makes the headers of one record after the other, in memory that
// it keeps.
type headerWriter struct {
	values
	// origin is nil if the records are not to be recognised again.
	origin  []byte
	headers []sarama.RecordHeader
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
	w.add(headerNames.eventID, w.id)
	w.add(headerNames.eventType, w.get(&w.plan.eventType))
	w.add(headerNames.aggregateType, w.get(&w.plan.aggregateType))
	w.add(headerNames.aggregateID, w.aggregateID)
	if !w.null(&w.plan.payload) {
		w.add(headerNames.contentType, w.plan.contentType)
	}
	if w.origin != nil {
		w.add(headerNames.position, w.made.end(r.position.Append(w.made.begin(positionBytes))))
		w.add(headerNames.origin, w.origin)
	}
	if metadata := w.get(&w.plan.metadata); metadata != nil {
		// judge has seen that it is an object.
		for m := (members{rest: metadata, made: &w.made}); m.next(); {
			if !reserved(m.name) {
				w.add(m.name, m.value)
			}
		}
	}
	return w.headers
}

// add adds a header, unless the value is NULL.
func (w *headerWriter) add(name, value []byte) {
	if value != nil {
		w.headers = append(w.headers, sarama.RecordHeader{Key: name, Value: value})
	}
}

// reserved reports whether a header's name is ours. The application's of that
// name is left out.
func reserved(name []byte) bool {
	switch string(name) {
	case eventIDHeader, eventTypeHeader, aggregateTypeHeader, aggregateIDHeader, contentTypeHeader, positionHeader, originHeader:
		return true
	}
	return false
}

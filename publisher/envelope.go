package publisher

import (
	"encoding/base64"
	"unicode/utf8"
)

// value returns the value of the record whose headers were made last: the payload
// as it is, or the envelope around it. A NULL payload is a tombstone in both
// cases.
func (w *headerWriter) value(r *record) []byte {
	payload := w.get(&w.plan.payload)
	if payload == nil || !w.plans.form.envelope {
		return payload
	}
	eventType, aggregateType := w.get(&w.plan.eventType), w.get(&w.plan.aggregateType)
	const frame = len(`{"id":,"type":,"aggregate":{"type":,"id":},"time":"","payload":}`) + timeBytes
	b := w.made.begin(frame + jsonBytes(w.id) + jsonBytes(eventType) + jsonBytes(aggregateType) + jsonBytes(w.aggregateID) + w.payloadBytes(payload))
	b = appendJSONText(append(b, `{"id":`...), w.id)
	b = appendJSONText(append(b, `,"type":`...), eventType)
	b = appendJSONText(append(b, `,"aggregate":{"type":`...), aggregateType)
	b = appendJSONText(append(b, `,"id":`...), w.aggregateID)
	b = appendTime(append(b, `},"time":"`...), eventTime(r))
	b = append(b, `","payload":`...)
	switch {
	case w.plan.isJSON(&w.plan.payload):
		b = append(b, payload...)
	case w.plan.payload.bytea:
		b = append(base64.StdEncoding.AppendEncode(append(b, '"'), payload), '"')
	default:
		b = appendJSONText(b, payload)
	}
	return w.made.end(append(b, '}'))
}

// payloadBytes is how much room a payload needs in the envelope.
func (w *headerWriter) payloadBytes(payload []byte) int {
	switch {
	case w.plan.isJSON(&w.plan.payload):
		return len(payload)
	case w.plan.payload.bytea:
		return base64.StdEncoding.EncodedLen(len(payload)) + 2
	}
	return jsonBytes(payload)
}

// appendJSONText appends a text as a JSON string, null for NULL.
func appendJSONText(b, text []byte) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for len(text) > 0 {
		c := text[0]
		switch {
		case c == '"' || c == '\\':
			b, text = append(b, '\\', c), text[1:]
		case c < ' ':
			b, text = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf]), text[1:]
		case c < utf8.RuneSelf:
			b, text = append(b, c), text[1:]
		default:
			r, n := utf8.DecodeRune(text)
			b, text = utf8.AppendRune(b, r), text[n:]
		}
	}
	return append(b, '"')
}

// jsonBytes is how much appendJSONText appends at most.
func jsonBytes(text []byte) int {
	n := len(`"null"`) + len(text)
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		case c >= utf8.RuneSelf:
			n += 2 // a byte that is not UTF-8 becomes three
		}
	}
	return n
}

//go:build linux || darwin

package main

import "strings"

// binary has the value's bytes passed on as they are.
var binary = map[string]string{"value.converter": "io.debezium.converters.BinaryDataConverter"}

// asJSON has the value serialized as JSON, as what table.expand.json.payload
// makes of it has to be.
var asJSON = map[string]string{"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}

// events are rows of one aggregate with the given payloads, in SQL.
func events(payloads ...string) []string {
	rows := make([]string, len(payloads))
	for i, payload := range payloads {
		rows[i] = "'order', '4711', 'OrderPlaced', " + payload
	}
	return rows
}

// withPayload are the columns with a payload of another type.
func withPayload(kind string) string { return strings.Replace(columns, "jsonb", kind, 1) }

// documents are JSON values that are easily changed on their way.
var documents = []string{
	`'{"total": 12.50}'`, `'{"nothing": null, "big": 123456789012345678901234567890, "small": 1e-30, "one": 1.10}'`,
	`'[1, 2]'`, `'"s"'`, `'1.10'`, `'null'`, `'true'`, `'{}'`, `'""'`, `'{"text": "\u00e4 \"quoted\" \\ \ud83d\ude00 日本語"}'`,
}

// payloadCases are about the column of the payload.
func payloadCases() []comparison {
	return []comparison{
		{name: "jsonb", columns: columns, rows: events(documents...)},
		{name: "json", columns: withPayload("json"), rows: events(append([]string{`' { "b" : 1.10 ,  "a":1,"a":2 } '`}, documents...)...)},
		{name: "text", columns: withPayload("text"), rows: events(`'plain'`, `' '`, `'null'`, `E'tab\tline\nend'`, `'日本語'`)},
		{name: "bytea", connector: binary, columns: withPayload("bytea"), rows: events(`'\x0001fe7fff'`, `'\x'`, `'\x00'`)},
		{name: "big", columns: columns, rows: events(
			`(SELECT jsonb_build_object('long', repeat('abc', 300000)))`, `(SELECT jsonb_agg(i) FROM generate_series(1, 100000) AS i)`)},
		{
			name: "xml", columns: withPayload("xml"), rows: events(`'<order total="12.50"/>'`),
		},
		{name: "null-payload", columns: columns, rows: events(`NULL`, `'{}'`)},
		{name: "empty-text", columns: withPayload("text"), rows: events(`''`, `NULL`)},
		{
			name: "empty-is-tombstone", router: map[string]string{"route.tombstone.on.empty.payload": "true"},
			columns: withPayload("text"), rows: events(`''`, `NULL`, `' '`, `'{}'`), differs: parts{inValue},
			why: "NULL is a tombstone on both sides, with and without the option; an empty text is an empty value here, since it is what the service has stored",
		},
		{
			name: "payload-column", router: map[string]string{"table.field.event.payload": "body"},
			mapping: "id: id, aggregate_type: aggregatetype, aggregate_id: aggregateid, event_type: type, payload: body",
			columns: strings.Replace(columns, "payload", "body", 1), rows: events(`'{"total": 12.50}'`),
		},
		{
			name: "expand-json", router: map[string]string{"table.expand.json.payload": "true"}, connector: asJSON,
			columns: columns, rows: events(`'{"id": 1, "lines": [{"sku": "a", "n": 2}]}'`, `'{"total": 12.50, "note": null}'`), differs: parts{inValue},
			why: "the value is JSON without the option, so it has no counterpart: here it is what PostgreSQL prints, there it is parsed and written again, without blanks, " +
				"nulls and the last zero of 12.50",
		},
		{
			name: "json-converter", connector: asJSON, columns: columns, rows: events(`'{"total": 12.50}'`), differs: parts{inValue},
			why: "Connect's JsonConverter makes a JSON string of the document; with the StringConverter or the BinaryDataConverter, as in all other cases, the values are the same",
		},
		{
			name: "envelope", router: map[string]string{"table.fields.additional.placement": "type:envelope:eventType"}, connector: asJSON,
			columns: columns, rows: events(`'{"total": 12.50}'`), differs: parts{inHeaders, inValue},
			why: "columns are not put into the value here, but into headers; `--envelope` has a form of its own",
		},
	}
}

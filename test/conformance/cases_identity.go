//go:build linux || darwin

package main

import "fmt"

// identityCases are about the columns of the id, the key and the time.
func identityCases() []comparison {
	const keyed = "aggregatetype varchar(255) NOT NULL, aggregateid %s, type varchar(255) NOT NULL, payload jsonb"
	ofType := func(kind string) string { return fmt.Sprintf(keyed, kind) }
	rows := func(keys ...string) []string {
		made := make([]string, len(keys))
		for i, key := range keys {
			made[i] = "'order', " + key + ", 'OrderPlaced', '{}'"
		}
		return made
	}
	many := make([]string, 64)
	for i := range many {
		many[i] = fmt.Sprintf("'customer-%d'", i)
	}
	return []comparison{
		{name: "id-text", id: "text", columns: columns, rows: events(`'{}'`)},
		{name: "id-bigint", id: "bigint", columns: columns, rows: events(`'{}'`)},
		{
			name: "id-column", router: map[string]string{"table.field.event.id": "number"},
			mapping: "id: number, aggregate_type: aggregatetype, aggregate_id: aggregateid, event_type: type, payload: payload",
			columns: "number bigint NOT NULL, " + columns, rows: []string{"7, 'order', '4711', 'OrderPlaced', '{}'"}, shownID: "7",
		},
		{
			name: "key-column", router: map[string]string{"table.field.event.key": "customer"},
			mapping: "id: id, aggregate_type: aggregatetype, aggregate_id: customer, event_type: type, payload: payload",
			columns: columns + ", customer text NOT NULL", rows: []string{`'order', '4711', 'OrderPlaced', '{}', 'c-1'`, `'order', '4712', 'OrderPlaced', '{}', 'c-2'`},
		},
		{name: "key-uuid", columns: ofType("uuid NOT NULL"), rows: rows(`'7F3D0D7C-9A41-4E4D-8F0B-0123456789AB'`)},
		{name: "key-bigint", columns: ofType("bigint NOT NULL"), rows: rows("4711", "-1", "9223372036854775807")},
		{name: "key-non-ascii", columns: columns, rows: rows(`'Zürich'`, `'日本'`, `'😀'`, `'a b'`, `''`)},
		{name: "every-partition", columns: columns, rows: rows(many...)},
		{
			name: "key-null", columns: ofType("text"), rows: rows("NULL", "'4711'"), differs: parts{relaySetsAside},
			why: "without a key there is no order to keep: there the record goes to any partition, here the row is set aside with the reason `null_aggregate_id`",
		},
		{
			name: "event-time", router: map[string]string{"table.field.event.timestamp": "created_at"}, relay: []string{"--timestamp", "created_at"},
			columns: columns + ", created_at timestamp NOT NULL", rows: []string{`'order', '4711', 'OrderPlaced', '{}', '2026-01-02 03:04:05.678901'`}, timed: true,
		},
		{
			name: "event-time-with-zone", router: map[string]string{"table.field.event.timestamp": "created_at"}, relay: []string{"--timestamp", "created_at"},
			columns: columns + ", created_at timestamptz NOT NULL", rows: []string{`'order', '4711', 'OrderPlaced', '{}', '2026-01-02 03:04:05.678901+00'`}, timed: true,
			differs: parts{debeziumStops}, why: "the router cannot read a `timestamptz`, the type that such a column usually has, and ends; here its time is the record's",
		},
		{
			name: "event-time-bigint", router: map[string]string{"table.field.event.timestamp": "created_at"}, relay: []string{"--timestamp", "created_at"},
			columns: columns + ", created_at bigint NOT NULL", rows: []string{`'order', '4711', 'OrderPlaced', '{}', 1767323045678`}, timed: true,
			differs: parts{debeziumStops}, why: "the router does not take a number for a time, and ends; here a `bigint` holds milliseconds",
		},
		{
			name: "commit-time", columns: columns, rows: events(`'{}'`), timed: true, differs: parts{inTimestamp},
			why: "there it is the time at which the connector has processed the row, here that of the commit, which is the same after a restart",
		},
	}
}

//go:build linux || darwin

package main

import "fmt"

// tableCases are about the table as a whole.
func tableCases() []comparison {
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf(`'order', 'customer-%d', 'OrderPlaced', '{"n": %d}'`, i%20, i)
	}
	return []comparison{
		{name: "one-transaction", columns: columns, rows: many, together: true},
		{name: "many-transactions", columns: columns, rows: many},
		{name: "several-tables", columns: columns, tables: 3, rows: many[:30]},
		{
			name: "schema-version", router: map[string]string{"table.field.event.schema.version": "version"}, columns: columns + ", version int NOT NULL",
			rows: []string{`'order', '4711', 'OrderPlaced', '{}', 2`},
		},
		{name: "event-type-column", router: map[string]string{"table.field.event.type": "type"}, columns: columns, rows: events(`'{}'`)},
		{name: "delete", columns: columns, rows: events(`'{}'`, `'{}'`), behind: "DELETE FROM %s", publishes: "insert, update, delete"},
		{name: "update", columns: columns, rows: events(`'{}'`), behind: "UPDATE %s SET type = 'OrderPaid'", publishes: "insert, update, delete"},
		{name: "update-unpublished", router: map[string]string{"table.op.invalid.behavior": "fatal"}, columns: columns, rows: events(`'{}'`),
			behind: "UPDATE %s SET type = 'OrderPaid'"},
	}
}

// refusalCases are rows of which no record can be made on one side or the
// other.
func refusalCases() []comparison {
	const placed = "aggregatetype varchar(255), aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb"
	return []comparison{
		{
			name: "update-fatal", router: map[string]string{"table.op.invalid.behavior": "fatal"}, columns: columns, rows: events(`'{}'`),
			behind: "UPDATE %s SET type = 'OrderPaid'", publishes: "insert, update, delete", differs: parts{debeziumStops},
			why: "an update is no event here and is not even sent, unless the publication was made by hand; there is nothing to end for",
		},
		{
			name: "aggregate-type-null", columns: placed, rows: []string{`'order', '1', 'OrderPlaced', '{}'`, `NULL, '2', 'OrderPlaced', '{}'`, `'order', '3', 'OrderPlaced', '{}'`},
			shown: 1, differs: parts{debeziumStops, relaySetsAside},
			why: "the router ends with a NullPointerException and all rows behind wait; here the row is set aside with the reason `null_aggregate_type`, the others go on",
		},
		{
			name: "topic-impossible", columns: columns, rows: []string{`'order', '1', 'OrderPlaced', '{}'`, `'größe', '2', 'OrderPlaced', '{}'`, `'order', '3', 'OrderPlaced', '{}'`},
			shown: 1, differs: parts{debeziumStops, relaySetsAside},
			why: "a name that Kafka refuses ends the task there; here the row is set aside with the reason `invalid_topic`",
		},
		{
			name: "column-missing", router: map[string]string{"table.fields.additional.placement": "type:header:eventType,absent:header"}, relay: []string{"--header", "absent"},
			columns: columns, rows: events(`'{}'`), differs: parts{debeziumStops, relayRefuses},
			why: "`table.field.additional.missing=error`, the default, ends at the first row; here the start is refused and the column named",
		},
		{
			name: "column-missing-ignored", router: map[string]string{"table.fields.additional.placement": "type:header:eventType,absent:header", "table.field.additional.missing": "ignore"},
			relay: []string{"--header", "absent"}, columns: columns, rows: events(`'{}'`), differs: parts{relayRefuses},
			why: "a column that is named has to be there; leave the flag out",
		},
	}
}

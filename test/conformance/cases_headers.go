//go:build linux || darwin

package main

// headerCases are about columns that become headers, and tracing.
func headerCases() []comparison {
	placed := func(more string) map[string]string {
		return map[string]string{"table.fields.additional.placement": "type:header:eventType," + more}
	}
	row := func(value string) string { return `'order', '4711', 'OrderPlaced', '{}', ` + value }
	header := func(name, kind string, differs parts, why string, values ...string) comparison {
		c := comparison{
			name: "header-" + name, router: placed("extra:header"), relay: []string{"--header", "extra"},
			columns: columns + ", extra " + kind, differs: differs, why: why,
		}
		for _, value := range values {
			c.rows = append(c.rows, row(value))
		}
		return c
	}
	return []comparison{
		{name: "no-event-type", router: map[string]string{"table.fields.additional.placement": ""}, columns: columns, rows: events(`'{}'`), differs: parts{inHeaders},
			why: "the router makes no header of the event type unless it is told to; here it always does"},
		{name: "context-headers", connector: map[string]string{"extended.headers.enabled": "true"}, columns: columns, rows: events(`'{}'`), differs: parts{inHeaders},
			why: "Debezium adds headers on itself, `__debezium.context.*`, unless `extended.headers.enabled` is false, as in all other cases"},
		header("text", "text", nil, "", `'plain'`, `'Zürich'`, `''`),
		{name: "header-alias", router: placed("extra:header:tenant"), relay: []string{"--header", "extra:tenant"}, columns: columns + ", extra text",
			rows: []string{row(`'acme'`)}},
		header("int", "int", nil, "", "42", "-1"),
		header("bigint", "bigint", nil, "", "9223372036854775807"),
		header("uuid", "uuid", nil, "", `'7f3d0d7c-9a41-4e4d-8f0b-0123456789ab'`),
		header("jsonb", "jsonb", nil, "", `'{"a": 1.10}'`),
		header("boolean", "boolean", parts{inHeaders}, "`true` there, PostgreSQL's text `t` here", "true"),
		header("numeric", "numeric(8,2)", nil, "", "12.50"),
		header("timestamptz", "timestamptz", parts{inHeaders}, "ISO 8601 there, PostgreSQL's text here", `'2026-01-02 03:04:05.678901+00'`),
		header("null", "text", parts{inHeaders}, "a header without a value there, no header here", "NULL"),
		{
			name: "tracing", router: placed("traceparent:header"), relay: []string{"--header", "traceparent"}, columns: columns + ", traceparent text",
			rows: []string{row(`'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'`)},
		},
		{
			name: "tracing-span-context", router: map[string]string{"tracing.span.context.field": "tracingspancontext"}, columns: columns + ", tracingspancontext text",
			rows: []string{row(`'traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'`)},
		},
	}
}

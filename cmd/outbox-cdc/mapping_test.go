package main

import (
	"strings"
	"testing"
)

// A mapping that is wrong is told with the line of the file and what to do, all of
// it at once, and before anything connects.
//
// Behaviours: C5
func TestFaultsOfAMapping(t *testing.T) {
	path := write(t, "relay.yaml", `brokers: nowhere.invalid:9092
dsn: host=nowhere.invalid
topic: x.{tenant}
key: tenant
header: [tenant:x, shard:x, a:position]
static-header: [x=1]
tables:
- Orders
- '"orders"'
- {name: PUBLIC."orders", preset: debezium}
- {name: b, columns: {payload: body, metadata: body}}
`)
	var want []string
	for _, line := range []string{
		`FILE:9: table "public"."orders" stands in FILE:8 already; leave one of them out`,
		`FILE:10: table "public"."orders" stands in FILE:9 already; leave one of them out`,
		`FILE:11: columns of table "public"."b": column "body" cannot be both payload and metadata`,
		`--topic may name {aggregate_type}, {aggregate_id}, {event_type}, {schema}, {table} and {column:NAME}, got "x.{tenant}" (FILE:3)`,
		`--key must be one of event_id, aggregate_id, column:NAME, got "tenant" (FILE:4)`,
		`--header must not name header "x", which is there already; choose another name, got "shard:x" (FILE:5)`,
		`--header must not name header "position", which is there already; choose another name, got "a:position" (FILE:5)`,
		`--static-header must not name header "x", which is there already; choose another name, got "x=1" (FILE:6)`,
	} {
		want = append(want, strings.ReplaceAll(line, "FILE", path))
	}
	wantFaults(t, []string{"run", "--config", path}, want...)
}

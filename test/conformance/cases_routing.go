//go:build linux || darwin

package main

// routingCases are about topics and partitions.
func routingCases() []comparison {
	return []comparison{
		{
			name: "topic", columns: columns, topics: []string{"outbox.event.order", "outbox.event.Invoice_1.x-y"},
			rows: []string{`'order', '4711', 'OrderPlaced', '{}'`, `'Invoice_1.x-y', '4711', 'Sent', '{}'`},
		},
		{
			name: "route-by", router: map[string]string{"route.by.field": "type"}, relay: []string{"--topic", "outbox.event.{event_type}"},
			columns: columns, topics: []string{"outbox.event.OrderPlaced"}, rows: events(`'{}'`),
		},
		{
			name: "route-replacement", router: map[string]string{"route.topic.replacement": "shop.${routedByValue}.events"},
			relay: []string{"--topic", "shop.{aggregate_type}.events"}, columns: columns, topics: []string{"shop.order.events"}, rows: events(`'{}'`),
		},
		{
			name: "route-fixed", router: map[string]string{"route.topic.replacement": "shop"}, relay: []string{"--topic", "shop"},
			columns: columns, topics: []string{"shop"}, rows: []string{`'order', '4711', 'OrderPlaced', '{}'`, `'invoice', '1', 'Sent', '{}'`},
		},
		{
			name: "route-regex", router: map[string]string{"route.topic.regex": "(.*)-(.*)", "route.topic.replacement": "$1.$2"},
			relay:   []string{"--topic", "{aggregate_type}", "--topic-map", "shop-order=shop.order"},
			columns: columns, topics: []string{"shop.order"}, rows: []string{`'shop-order', '4711', 'OrderPlaced', '{}'`},
		},
		{
			name: "route-regex-unmapped", router: map[string]string{"route.topic.regex": "(.*)-(.*)", "route.topic.replacement": "$1.$2"}, relay: []string{"--topic", "{aggregate_type}"},
			columns: columns, topics: []string{"shop.order", "shop-order"}, rows: []string{`'shop-order', '4711', 'OrderPlaced', '{}'`}, differs: parts{inTopic},
			why: "values are not taken apart here; `--topic-map` has a topic for each",
		},
		{
			name: "partition-column", router: map[string]string{"table.fields.additional.placement": "type:header:eventType,shard:partition"},
			relay: []string{"--partition-by", "number:shard"}, columns: columns + ", shard int NOT NULL",
			rows: []string{`'order', '4711', 'OrderPlaced', '{}', 5`, `'order', '4711', 'OrderPaid', '{}', 0`},
		},
	}
}

//go:build linux || darwin

package main

import (
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestJudgeCutOver(t *testing.T) {
	// published are the records of events by their numbers, two aggregates.
	published := func(numbers ...int) []harness.Record {
		var records []harness.Record
		for _, n := range numbers {
			records = append(records, recordOf(comparison{}.idOf(n), func(r *kgo.Record) { r.Key = []byte(strconv.Itoa(n % 2)) }))
		}
		return records
	}
	changed := published(0, 1, 1)
	changed[2].Value = []byte("another")
	for _, c := range []struct {
		name    string
		records []harness.Record
		events  int
		twice   int
		fails   bool
	}{
		{name: "each once", records: published(0, 1, 2, 3), events: 4},
		{name: "aggregates across each other", records: published(1, 0, 3, 2), events: 4},
		{name: "a stretch again", records: published(0, 1, 2, 3, 2, 3, 4), events: 5, twice: 2},
		{name: "one lost", records: published(0, 1, 3), events: 4, fails: true},
		{name: "one overtaken", records: published(0, 1, 4, 2, 3), events: 5, fails: true},
		{name: "again, but not in one stretch", records: published(0, 1, 2, 3, 1, 3), events: 4, fails: true},
		{name: "again, but not the same", records: changed, events: 2, fails: true},
		{name: "never committed", records: published(0, 1), events: 1, fails: true},
		{name: "not one of ours", records: []harness.Record{recordOf("event", nil)}, events: 1, fails: true},
	} {
		v, err := judgeCutOver(c.records, c.events)
		if (err != nil) != c.fails || err == nil && v != (takeover{c.events, c.twice}) {
			t.Errorf("%s: %+v, %v", c.name, v, err)
		}
	}
}

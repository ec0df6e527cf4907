//go:build linux || darwin

package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestJudge(t *testing.T) {
	l := newLedger()
	for _, id := range []string{"a", "b", "c"} {
		l.write(outcome{id: id})
	}
	l.write(outcome{id: "x", change: change{rollback: true}})
	record := func(partition int32, id string) harness.Record {
		return harness.Record{Record: &kgo.Record{Partition: partition, Key: []byte(id)}}
	}
	for _, tt := range []struct {
		name    string
		records []harness.Record
		want    verdict
	}{
		{"as promised", []harness.Record{record(0, "b"), record(1, "a"), record(1, "c")}, verdict{}},
		{"lost", []harness.Record{record(0, "a"), record(0, "c")}, verdict{lost: 1}},
		{"doubled", []harness.Record{record(0, "a"), record(0, "b"), record(0, "b"), record(1, "c")}, verdict{doubled: 1}},
		{"doubled later", []harness.Record{record(0, "a"), record(0, "b"), record(0, "c"), record(0, "a")}, verdict{doubled: 1}},
		{"out of order", []harness.Record{record(0, "a"), record(0, "c"), record(0, "b")}, verdict{disordered: 1}},
		{"rolled back", []harness.Record{record(0, "a"), record(0, "b"), record(0, "x"), record(0, "c")}, verdict{leaked: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.committed, tt.want.rolledBack, tt.want.published = 3, 1, len(tt.records)
			got := l.judge(tt.records)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got.kept() != (tt.name == "as promised") {
				t.Errorf("the promise counts as kept: %t", got.kept())
			}
		})
	}
}

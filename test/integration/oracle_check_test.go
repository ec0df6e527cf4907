//go:build linux || darwin

package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestOracle feeds the oracle with evidence of each violation. An oracle that
// finds nothing would let every other test pass.
func TestOracle(t *testing.T) {
	const topic = "t"
	record := func(number int64, offset int64, position string) harness.Record {
		return harness.Record{Record: &kgo.Record{Topic: topic, Offset: offset, Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "event_id", Value: []byte(idOf(number))},
			{Key: "aggregate_id", Value: []byte("a")},
			{Key: "position", Value: []byte(position)},
		}}}
	}
	elsewhere := record(2, 0, "2")
	elsewhere.Partition = 1
	altered := record(2, 1, "2")
	altered.Value = []byte("w")
	routed := func(r harness.Record, origin string, partition int32) harness.Record {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "origin", Value: []byte(origin)})
		r.Partition = partition
		return r
	}
	rerouted := []harness.Record{
		routed(record(1, 0, "1"), "x", 0), routed(record(2, 1, "2"), "x", 0), routed(record(2, 0, "2"), "y", 1),
	}
	during := func(w window) exceptions {
		return exceptions{rerouted: "the routing changed", windows: []window{w}}
	}
	began := time.Now()
	seen := func(confirmed, flush pglogrepl.LSN, end int64) sample {
		return sample{
			started: began, confirmed: confirmed, walEnd: 100, walsender: 7, flush: flush, reported: true,
			ends: map[partition]int64{{topic, 0}: end},
		}
	}
	for _, c := range []struct {
		name     string
		records  []harness.Record
		samples  []sample
		setAside []string
		except   exceptions
		want     []string // what each violation says; none if empty
	}{
		{
			name:    "in order",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2")},
			samples: []sample{seen(5, 5, 0), seen(10, 10, 1), seen(20, 20, 2)},
		},
		{name: "one missing", records: []harness.Record{record(1, 0, "1")}, want: []string{"is not in Kafka"}},
		{
			name:    "one missing, not confirmed, with an exception",
			records: []harness.Record{record(1, 0, "1")}, samples: []sample{seen(10, 10, 1)},
			except: exceptions{incomplete: "the relay was stopped"},
		},
		{
			name:    "one missing and confirmed, with an exception for the rest",
			records: []harness.Record{record(1, 0, "1")}, samples: []sample{seen(20, 20, 1)},
			except: exceptions{incomplete: "the relay was stopped"}, want: []string{"is not in Kafka, and the slot is confirmed"},
		},
		{name: "rolled back", records: []harness.Record{record(1, 0, "1"), record(2, 1, "2"), record(3, 2, "3")}, want: []string{"was rolled back"}},
		{name: "never committed", records: []harness.Record{record(1, 0, "1"), record(2, 1, "2"), record(9, 2, "3")}, want: []string{"was never committed"}},
		{name: "doubled", records: []harness.Record{record(1, 0, "1"), record(2, 1, "2"), record(1, 2, "1")}, want: []string{"is at t/0@0 and again at t/0@2"}},
		{
			name:    "doubled with an exception",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2"), record(1, 2, "1")}, except: exceptions{duplicates: "the origin changed"},
		},
		{name: "doubled as the routing changed", records: rerouted, except: during(window{from: 10, to: 20, doubles: true})},
		{
			name:    "doubled before the routing changed",
			records: rerouted, except: during(window{from: 20, to: 30, doubles: true}), want: []string{"is at t/0@1 and again at t/1@0"},
		},
		{
			name:    "doubled by one routing as it changed",
			records: append(rerouted, routed(record(1, 1, "1"), "x", 1)), except: during(window{to: 20, doubles: true}),
			want: []string{"is at t/0@0 and again at t/1@1"},
		},
		{
			name:    "doubled in another topic than the one whose routing changed",
			records: rerouted, except: during(window{to: 20, doubles: true, topics: []string{"u"}}), want: []string{"and again at"},
		},
		{
			name:    "out of order as the routing changed",
			records: []harness.Record{routed(record(2, 0, "2"), "x", 0), routed(record(1, 1, "1"), "y", 0)}, except: during(window{to: 20, doubles: true}),
			want: []string{"is behind"},
		},
		{name: "out of order", records: []harness.Record{record(2, 0, "2"), record(1, 1, "1")}, want: []string{"is behind"}},
		{name: "positions out of order", records: []harness.Record{record(1, 0, "2"), record(2, 1, "1")}, want: []string{"which is not behind"}},
		{name: "aggregate in two partitions", records: []harness.Record{record(1, 0, "1"), elsewhere}, want: []string{"others of it are in partition 0", "instead of partition 0"}},
		{name: "value altered", records: []harness.Record{record(1, 0, "1"), altered}, want: []string{"the row's is"}},
		{
			name:    "confirmed before the acknowledgement",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2")}, samples: []sample{seen(5, 5, 0), seen(20, 20, 1), seen(20, 20, 2)},
			want: []string{"was not yet acknowledged at t/0@1"},
		},
		{
			name:    "confirmed while the brokers said nothing",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2")},
			samples: []sample{{started: began, confirmed: 20, walEnd: 100}, seen(20, 20, 1)}, want: []string{"was not yet acknowledged at t/0@1"},
		},
		{
			name:    "confirmed past the end of the log",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2")}, samples: []sample{seen(101, 101, 2)}, want: []string{"past the end of the write-ahead log"},
		},
		{
			name:    "positions going back",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2")}, samples: []sample{seen(20, 20, 2), seen(19, 19, 2)},
			want: []string{"the slot's position went back", "the flush position told to walsender 7 went back"},
		},
		{
			name:    "flush of zero",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2")}, samples: []sample{seen(20, 20, 2), seen(20, 0, 2)},
			want: []string{"flush position of zero", "went back"},
		},
		{
			name:    "set aside as expected",
			records: []harness.Record{record(1, 0, "1")}, samples: []sample{seen(20, 20, 1)},
			setAside: []string{idOf(2)}, except: exceptions{setAside: []string{idOf(2)}},
		},
		{
			name:    "set aside while the limit was low",
			records: []harness.Record{record(1, 0, "1")}, setAside: []string{idOf(2)},
			except: during(window{from: 10, to: 20, setAside: func(id string) bool { return id == idOf(2) }}),
		},
		{
			name:    "set aside before the limit was low",
			records: []harness.Record{record(1, 0, "1")}, setAside: []string{idOf(2)},
			except: during(window{from: 20, to: 30, setAside: func(string) bool { return true }}), want: []string{"was set aside"},
		},
		{name: "set aside unexpectedly", records: []harness.Record{record(1, 0, "1")}, setAside: []string{idOf(2)}, want: []string{"was set aside"}},
		{
			name:    "set aside and published",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2")}, setAside: []string{idOf(2)}, except: exceptions{setAside: []string{idOf(2)}},
			want: []string{"was set aside and is at"},
		},
		{
			name:    "not set aside",
			records: []harness.Record{record(1, 0, "1"), record(2, 1, "2")}, except: exceptions{setAside: []string{idOf(2)}}, want: []string{"was not set aside"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			const sumOfV = "9e3669d19b675bd57058fd4664205d2a"
			e := evidence{
				committed: []walEvent{{idOf(1), 10}, {idOf(2), 20}},
				outcome: func(id string) outcome {
					if id == idOf(3) {
						return rolledBack
					}
					return unknown
				},
				sum: func(string) (string, bool) { return sumOfV, true },
				records: func(visit func(harness.Record)) {
					for _, r := range c.records {
						visit(r)
					}
				},
				samples: c.samples, setAside: c.setAside, partitions: func(string) int { return 1 },
			}
			got := e.judge(c.except).found
			if len(got) != len(c.want) {
				t.Fatalf("got %d violations %v, want %d", len(got), got, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(got[i].text, want) {
					t.Errorf("got violation %q, want one that says %q", got[i].text, want)
				}
			}
		})
	}
}

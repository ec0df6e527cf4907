//go:build linux || darwin

package integration

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestTortureExcusesWhatIsWritten finds what faults are excused for in the table
// of docs/guarantees.md.
func TestTortureExcusesWhatIsWritten(t *testing.T) {
	root, err := harness.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	guarantees, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tortures() {
		if f.doubles != "" && !strings.Contains(string(guarantees), "\n| "+f.doubles) {
			t.Errorf("%s: no row of docs/guarantees.md begins with %q", f.name, f.doubles)
		}
	}
}

// update has TestTortureIsShown write the page instead of reading it.
var update = flag.Bool("update", false, "write what docs/guarantees.md shows of testdata/torture.json")

// TestTortureIsShown holds the table of docs/guarantees.md against the summary
// of the run that it shows.
func TestTortureIsShown(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "torture.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s summary
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	root, err := harness.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, "docs", "guarantees.md")
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- made by TestTortureIsShown -update -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(string(page), begin)
	shown, after, closed := strings.Cut(rest, end)
	switch want := s.String(); {
	case !found || !closed:
		t.Fatalf("%s does not say where the table is", name)
	case *update:
		if err := os.WriteFile(name, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case shown != want:
		t.Errorf("%s shows another run than testdata/torture.json; run this test with -update", name)
	}
}

// TestTortureCanBeRepeated compares what two schedules of the same seed give.
func TestTortureCanBeRepeated(t *testing.T) {
	one, other := newSchedule(7, false, tortures()), newSchedule(7, false, tortures())
	for range 1000 {
		a, b := one.next(), other.next()
		same := func(x, y *fault) bool { return x.name == y.name }
		if a.hold != b.hold || a.pause != b.pause || a.random.Uint64() != b.random.Uint64() || !slices.EqualFunc(a.faults, b.faults, same) {
			t.Fatal("the same seed gives other rounds")
		}
	}
}

// TestTortureFindsABrokenRelay has somebody between the relay and the broker
// make it a broken one: it loses, doubles, swaps or alters events, or takes for
// written what was not. The oracle finds each.
func TestTortureFindsABrokenRelay(t *testing.T) {
	k := proxiedKafka(t, 1)
	for _, c := range []struct {
		name string
		what func(o *outbox) sabotage
		want kind
	}{
		{"dropped", func(*outbox) sabotage { return dropped }, lost},
		{"acknowledged and not written", func(*outbox) sabotage { return forged }, lost},
		{"doubled", (*outbox).twice, doubled},
		{"swapped", func(*outbox) sabotage { return swapped }, disordered},
		{"altered", func(*outbox) sabotage { return altered }, otherwise},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
			s := sabotaged(t, k.Broker(0))
			r := o.start()
			o.insert(5)
			o.awaitDrained()
			what := c.what(o)
			s.what.Store(&what)
			tx := o.begin()
			tx.insert(20)
			tx.commit()
			o.awaitDrained()
			r.kill()
			if s.done.Load() == 0 {
				t.Fatal("no batch was sabotaged")
			}
			// A circumstance in which the routing changes is no excuse.
			changed := window{why: "the routing was changed", to: o.walEnd(), doubles: true}
			for _, except := range []exceptions{{}, {rerouted: changed.why, windows: []window{changed}}} {
				expectViolations(t, o.judge(except).found, c.want)
			}
		})
	}
}

// expectViolations checks that some violation is of a kind, and that all of
// that kind name an event.
func expectViolations(t *testing.T, found []violation, want kind) {
	t.Helper()
	counts := make(map[kind]int)
	for _, v := range found {
		counts[v.kind]++
		if v.kind == want && v.end == 0 {
			t.Errorf("the violation names no event that was committed: %s", v.text)
		}
	}
	if counts[want] == 0 {
		t.Errorf("the oracle has found %v, and nothing that is %s", counts, want)
	}
}

// dropped puts a record of somebody else in the place of the last.
func dropped(topic string, partition int32, records []kmsg.Record) bool {
	last := &records[len(records)-1]
	last.Key, last.Value, last.Headers = nil, nil, []kmsg.Header{{Key: foreignHeader}}
	return true
}

// forged keeps the batch from the broker.
func forged(string, int32, []kmsg.Record) bool { return false }

// twice writes the first record once more.
func (o *outbox) twice() sabotage {
	return func(topic string, partition int32, records []kmsg.Record) bool {
		again := &kgo.Record{Topic: topic, Partition: partition, Key: records[0].Key, Value: records[0].Value}
		for _, h := range records[0].Headers {
			again.Headers = append(again.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		if err := o.kafka.Produce(o.t.Context(), again); err != nil {
			o.t.Errorf("write a record twice: %v", err)
		}
		return true
	}
}

// swapped exchanges the first record and the last.
func swapped(_ string, _ int32, records []kmsg.Record) bool {
	first, last := &records[0], &records[len(records)-1]
	first.Key, last.Key = last.Key, first.Key
	first.Value, last.Value = last.Value, first.Value
	first.Headers, last.Headers = last.Headers, first.Headers
	return true
}

// altered changes a value.
func altered(_ string, _ int32, records []kmsg.Record) bool {
	records[0].Value = append([]byte(" "), records[0].Value...)
	return true
}

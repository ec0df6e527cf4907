//go:build linux || darwin

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// part is something in which two sides can differ.
type part string

const (
	inTopic     part = "topic"
	inPartition part = "partition"
	inKey       part = "key"
	inHeaders   part = "headers"
	inValue     part = "value"
	inTimestamp part = "timestamp"
	// inOrder is about the records of a partition.
	inOrder part = "order"
	// inNumber: a record is there more often on one side.
	inNumber part = "number"
	// debeziumStops: the task of the connector has failed, and with it the
	// rows behind wait for a person.
	debeziumStops part = "Debezium stops"
	// relaySetsAside: a row has become a dead letter.
	relaySetsAside part = "set aside here"
	// relayRefuses: outbox-cdc has ended with an error.
	relayRefuses part = "refused here"
)

// parts are in the order of allParts, each once.
type parts []part

var allParts = parts{inTopic, inPartition, inKey, inHeaders, inValue, inTimestamp, inOrder, inNumber, debeziumStops, relaySetsAside, relayRefuses}

const noDifference = "nothing"

func (p parts) String() string {
	if len(p) == 0 {
		return noDifference
	}
	texts := make([]string, len(p))
	for i := range p {
		texts[i] = string(p[i])
	}
	return strings.Join(texts, ", ")
}

// parseParts is the reverse of parts.String.
func parseParts(text string) (parts, error) {
	if text == noDifference {
		return nil, nil
	}
	var found parts
	for name := range strings.SplitSeq(text, ", ") {
		if !slices.Contains(allParts, part(name)) {
			return nil, fmt.Errorf("there is nothing called %q to differ in", name)
		}
		found = append(found, part(name))
	}
	return found, nil
}

// side is what one of the two has made of the rows.
type side struct {
	// records are by topic, partition and offset; the topics are without the
	// prefix of the side.
	records []harness.Record
	// failed is why it stopped by itself, empty if it did not.
	failed string
	// setAside are the ids of rows that have become dead letters.
	setAside []string
}

// outcome is the result of one comparison.
type outcome struct {
	differs parts
	// details say where, each in one line, the first ones of a part.
	details map[part][]string
	// pairs is how many records were compared with each other, and identical
	// how many of them are the same in everything that was compared.
	pairs, identical int
}

// idHeader is the header by which the records of both sides find each other.
const idHeader = "id"

// compare compares what Debezium has made of the rows, there, with what
// outbox-cdc has, here. Only with timed set are timestamps compared.
func compare(there, here side, timed bool) outcome {
	o := outcome{details: make(map[part][]string)}
	theirs, ours := byID(there.records), byID(here.records)
	for _, id := range slices.Sorted(keysOf(theirs, ours)) {
		a, b := theirs[id], ours[id]
		if len(a) == 1 && len(b) == 1 {
			o.pair(id, a[0], b[0], timed)
			continue
		}
		if len(a) == 0 && there.failed != "" || len(b) == 0 && (here.failed != "" || slices.Contains(here.setAside, id)) {
			continue // said below
		}
		o.note(inNumber, "%s: %d records there, %d here", id, len(a), len(b))
	}
	o.order(there.records, here.records)
	if there.failed != "" {
		o.note(debeziumStops, "%s", there.failed)
	}
	if here.failed != "" {
		o.note(relayRefuses, "%s", here.failed)
	}
	for _, id := range here.setAside {
		o.note(relaySetsAside, "%s", id)
	}
	for _, p := range allParts {
		if len(o.details[p]) > 0 {
			o.differs = append(o.differs, p)
		}
	}
	return o
}

// note notes that something differs.
func (o *outcome) note(p part, format string, args ...any) {
	const kept = 3
	if len(o.details[p]) < kept {
		o.details[p] = append(o.details[p], fmt.Sprintf(format, args...))
	}
}

// pair compares the two records of a row.
func (o *outcome) pair(id string, a, b harness.Record, timed bool) {
	same := true
	differ := func(p part, there, here string) {
		same = false
		o.note(p, "%s: %s there, %s here", id, there, here)
	}
	if a.Topic != b.Topic {
		differ(inTopic, a.Topic, b.Topic)
	}
	if a.Partition != b.Partition {
		differ(inPartition, fmt.Sprint(a.Partition), fmt.Sprint(b.Partition))
	}
	if !equal(a.Key, b.Key) {
		differ(inKey, quoted(a.Key), quoted(b.Key))
	}
	if !slices.EqualFunc(a.Headers, b.Headers, func(x, y kgo.RecordHeader) bool { return x.Key == y.Key && equal(x.Value, y.Value) }) {
		differ(inHeaders, headers(a), headers(b))
	}
	if !equal(a.Value, b.Value) {
		differ(inValue, quoted(a.Value), quoted(b.Value))
	}
	if timed && !a.Timestamp.Equal(b.Timestamp) {
		differ(inTimestamp, a.Timestamp.UTC().String(), b.Timestamp.UTC().String())
	}
	o.pairs++
	if same {
		o.identical++
	}
}

// order compares, partition by partition, the order of the records that both
// sides have.
func (o *outcome) order(there, here []harness.Record) {
	theirs, ours := byID(there), byID(here)
	common := func(r harness.Record) bool {
		id, _ := r.Header(idHeader)
		return len(theirs[id]) == 1 && len(ours[id]) == 1 && theirs[id][0].Topic == ours[id][0].Topic && theirs[id][0].Partition == ours[id][0].Partition
	}
	lanes := func(records []harness.Record) map[string][]string {
		found := make(map[string][]string)
		for _, r := range records {
			if common(r) {
				id, _ := r.Header(idHeader)
				lane := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
				found[lane] = append(found[lane], id)
			}
		}
		return found
	}
	a, b := lanes(there), lanes(here)
	for _, lane := range slices.Sorted(keysOf(a, b)) {
		if !slices.Equal(a[lane], b[lane]) {
			o.note(inOrder, "%s: %v there, %v here", lane, a[lane], b[lane])
		}
	}
}

// equal compares bytes; none at all is not the same as an empty text.
func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// byID returns the records by the header of their id, those of one in order.
func byID(records []harness.Record) map[string][]harness.Record {
	found := make(map[string][]harness.Record)
	for _, r := range records {
		id, _ := r.Header(idHeader)
		found[id] = append(found[id], r)
	}
	return found
}

// keysOf returns the keys of two maps, each once.
func keysOf[V any](a, b map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range a {
			if !yield(key) {
				return
			}
		}
		for key := range b {
			if _, both := a[key]; !both && !yield(key) {
				return
			}
		}
	}
}

// headers shows the headers of a record.
func headers(r harness.Record) string {
	all := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		all[i] = h.Key + "=" + quoted(h.Value)
	}
	return "[" + strings.Join(all, " ") + "]"
}

// quoted shows bytes in one line, not all of them if there are many.
func quoted(b []byte) string {
	const shown = 60
	switch {
	case b == nil:
		return "NULL"
	case len(b) > shown:
		return fmt.Sprintf("%q… (%d bytes)", b[:shown], len(b))
	}
	return fmt.Sprintf("%q", b)
}

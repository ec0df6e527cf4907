//go:build linux || darwin

package integration

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/jackc/pglogrepl"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// exceptions are what a test lets the oracle pass, each with the circumstance
// that allows it. Without one nothing is passed.
type exceptions struct {
	// duplicates: events may be in Kafka more than once.
	duplicates string
	// incomplete: committed events may be missing that the slot is not
	// confirmed past.
	incomplete string
	// moved: the slot may have gone back, or be past events that were never
	// published, since somebody else moved it.
	moved string
	// rerouted: an aggregate's events may be in more than one partition, and
	// in others than murmur2 gives; a partition is in order as far as its
	// records have one origin.
	rerouted string
	// setAside are the ids of the events that must be among the dead letters,
	// and not in Kafka.
	setAside []string
	// windows are the circumstances that allow something to the events that
	// were on their way at the time, and to no others.
	windows []window
}

// payloadBytes is the expression for what a value must be: the bytes of a bytea,
// the text of anything else.
func (o *outbox) payloadBytes() string {
	o.t.Helper()
	kind := value[string](o, "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'payload'", o.table)
	if kind == "bytea" {
		return "payload"
	}
	return "convert_to(payload::text, 'UTF8')"
}

// evidence is what the oracle judges.
type evidence struct {
	committed []walEvent // in commit order
	outcome   func(id string) outcome
	// sum returns the MD5 of the bytes that an event's value must have, "" for
	// a tombstone, and whether that is known.
	sum func(id string) (string, bool)
	// removed are records that are in the topics no more, in order; those of
	// one removal have something in common that is not the next one's.
	removed [][]harness.Record
	// records calls visit with each record, those of a partition in order:
	// there may be more than should be in memory at once.
	records  func(visit func(harness.Record))
	setAside []string
	samples  []sample
	// partitions is how many a topic has; with exceptions.rerouted it is not
	// used.
	partitions func(topic string) int
}

// place is where a record is, or was.
type place struct {
	partition
	offset int64
	origin string
	// life is 0 for what the topics hold, or counts the removals so far.
	life int
}

func (p place) String() string {
	return fmt.Sprintf("%s/%d@%d", p.topic, p.number, p.offset)
}

// judgement is one run of the oracle over the evidence.
type judgement struct {
	evidence
	except exceptions
	order  map[string]int     // of each committed event
	first  map[string]place   // where its first record is
	again  map[string][]place // where others are
	found  []violation
	newest map[lane]kept // of each partition's records so far
	homes  map[aggregate]partition
	aside  map[string]bool // as evidence.setAside
	// allowed is how often each window has allowed something.
	allowed map[string]int
	life    int // of the records that are judged
	read    int // records
}

// violation is one thing that contradicts the guarantees.
type violation struct {
	kind kind
	text string
	// end is the event's, where it concerns one.
	end pglogrepl.LSN
}

// kind is what a violation amounts to.
type kind string

const (
	lost       kind = "lost"
	doubled    kind = "doubled"
	disordered kind = "out of order"
	early      kind = "confirmed too early"
	otherwise  kind = "other"
)

// lane is what has to be in order: a partition, or, if events were routed in
// several ways, the records of one of them in it; and the records of an
// aggregate in a partition, however they came there.
type lane struct {
	partition
	life              int
	origin, aggregate string
}

// kept is the record of a partition that is the latest in commit order.
type kept struct {
	id, position string
	order        int
}

type aggregate struct{ topic, id string }

// judge finds what contradicts the guarantees, with ids and places.
func (e evidence) judge(except exceptions) *judgement {
	j := &judgement{
		evidence: e, except: except, order: make(map[string]int, len(e.committed)), first: make(map[string]place, len(e.committed)),
		again: make(map[string][]place), newest: make(map[lane]kept), homes: make(map[aggregate]partition),
		aside: make(map[string]bool), allowed: make(map[string]int),
	}
	for i, event := range e.committed {
		j.order[event.id] = i
	}
	for _, id := range e.setAside {
		j.aside[id] = true
	}
	for i, removed := range e.removed {
		j.life = i + 1
		for _, r := range removed {
			j.record(r)
		}
	}
	j.life = 0
	e.records(j.record)
	j.completeness()
	j.confirmations()
	return j
}

// violation notes what is wrong with an event, or with none.
func (j *judgement) violation(kind kind, id, format string, args ...any) {
	v := violation{kind: kind, text: fmt.Sprintf(format, args...)}
	if order, known := j.order[id]; known {
		v.end = j.committed[order].end
	}
	j.found = append(j.found, v)
}

// record judges one record; those in front of it in its partition were judged
// before.
func (j *judgement) record(r harness.Record) {
	j.read++
	at := place{partition: partition{r.Topic, r.Partition}, offset: r.Offset, life: j.life}
	at.origin, _ = r.Header("origin")
	id, _ := r.Header("event_id")
	order, known := j.order[id]
	switch {
	case !known && j.outcome(id) == rolledBack:
		j.violation(otherwise, id, "%s at %s was rolled back", id, at)
		return
	case !known:
		j.violation(otherwise, id, "%q at %s was never committed", id, at)
		return
	}
	j.content(id, at, r)
	position, _ := r.Header("position")
	in := lane{partition: at.partition, life: at.life}
	if j.except.rerouted != "" {
		in.origin = at.origin
	}
	if earlier, again := j.first[id]; again {
		switch {
		case j.except.duplicates != "":
		case j.mayBeDoubled(id, at):
			j.inOrder(in, kept{id, position, order}, at)
		default:
			j.violation(doubled, id, "%s (commit %d, position %s) is at %s and again at %s", id, order, position, earlier, at)
		}
		j.again[id] = append(j.again[id], at)
		return
	}
	j.first[id] = at
	j.home(id, at, r)
	if j.except.rerouted != "" && !j.scattered(order) {
		name, _ := r.Header("aggregate_id")
		j.inOrder(lane{partition: at.partition, life: at.life, aggregate: name}, kept{id, "", order}, at)
	}
	j.inOrder(in, kept{id, position, order}, at)
}

// inOrder checks that a record is behind those of its lane in commit order.
func (j *judgement) inOrder(in lane, now kept, at place) {
	newest, any := j.newest[in]
	if any && newest.order > now.order {
		j.violation(disordered, now.id, "%s (commit %d, position %s) at %s is behind %s (commit %d, position %s)",
			now.id, now.order, now.position, at, newest.id, newest.order, newest.position)
		return
	}
	if any && now.position != "" && now.position <= newest.position {
		j.violation(disordered, now.id, "%s at %s has position %s, which is not behind %s of %s", now.id, at, now.position, newest.position, newest.id)
	}
	j.newest[in] = now
}

// content compares the value with the row.
func (j *judgement) content(id string, at place, r harness.Record) {
	want, known := j.sum(id)
	if !known {
		return
	}
	got := ""
	if r.Value != nil {
		sum := md5.Sum(r.Value)
		got = hex.EncodeToString(sum[:])
	}
	if got != want {
		j.violation(otherwise, id, "%s at %s has a value of %d bytes with MD5 %q, the row's is %q", id, at, len(r.Value), got, want)
	}
}

// home checks that an aggregate's events are in one partition, the one that
// the Java client gives.
func (j *judgement) home(id string, at place, r harness.Record) {
	name, _ := r.Header("aggregate_id")
	if j.except.rerouted != "" {
		return
	}
	home, seen := j.homes[aggregate{r.Topic, name}]
	if !seen {
		j.homes[aggregate{r.Topic, name}] = at.partition
	} else if home != at.partition {
		j.violation(disordered, id, "%s of aggregate %q is at %s, others of it are in partition %d", id, name, at, home.number)
	}
	if want := javaPartition(name, j.partitions(r.Topic)); int32(want) != r.Partition {
		j.violation(otherwise, id, "%s of aggregate %q is at %s instead of partition %d", id, name, at, want)
	}
}

// javaPartition returns the partition that Kafka's Java client gives to a key,
// by franz-go's account.
func javaPartition(key string, partitions int) int {
	return kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: []byte(key)}, partitions)
}

// completeness checks that every committed event is in Kafka or set aside.
func (j *judgement) completeness() {
	for _, id := range j.setAside {
		if !slices.Contains(j.except.setAside, id) && !j.mayBeSetAside(id) {
			j.violation(otherwise, id, "%s was set aside", id)
		}
		if at, published := j.first[id]; published {
			j.violation(otherwise, id, "%s was set aside and is at %s", id, at)
		}
	}
	for _, id := range j.except.setAside {
		if !j.aside[id] {
			j.violation(otherwise, id, "%s was not set aside", id)
		}
	}
	for i, event := range j.committed {
		if _, published := j.first[event.id]; published || j.aside[event.id] {
			continue
		}
		if j.except.incomplete == "" && j.except.moved == "" {
			j.violation(lost, event.id, "%s (commit %d, ends at %s) is not in Kafka", event.id, i, event.end)
		}
	}
}

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
	payloads  map[string]string
	// records calls visit with each record, those of a partition in order:
	// there may be more than should be in memory at once.
	records    func(visit func(harness.Record))
	setAside   []string
	samples    []sample
	partitions int
}

// place is where a record is.
type place struct {
	partition
	offset int64
}

func (p place) String() string {
	return fmt.Sprintf("%s/%d@%d", p.topic, p.number, p.offset)
}

// judgement is one run of the oracle over the evidence.
type judgement struct {
	evidence
	except exceptions
	order  map[string]int   // of each committed event
	first  map[string]place // where its first record is
	found  []string         // violations
	newest map[lane]kept    // of each partition's records so far
	homes  map[aggregate]partition
}

// lane is what has to be in order: a partition, or, if events were routed in
// several ways, the records of one of them in it.
type lane struct {
	partition
	origin string
}

// kept is the record of a partition that is the latest in commit order.
type kept struct {
	id, position string
	order        int
}

type aggregate struct{ topic, id string }

// violations returns what contradicts the guarantees, with ids and places.
func (e evidence) violations(except exceptions) []string {
	j := judgement{
		evidence: e, except: except, order: make(map[string]int), first: make(map[string]place),
		newest: make(map[lane]kept), homes: make(map[aggregate]partition),
	}
	for i, event := range e.committed {
		j.order[event.id] = i
	}
	e.records(j.record)
	j.completeness()
	j.confirmations()
	return j.found
}

func (j *judgement) violation(format string, args ...any) {
	j.found = append(j.found, fmt.Sprintf(format, args...))
}

// record judges one record; those in front of it in its partition were judged
// before.
func (j *judgement) record(r harness.Record) {
	at := place{partition{r.Topic, r.Partition}, r.Offset}
	id, _ := r.Header("event_id")
	order, known := j.order[id]
	switch {
	case !known && j.outcome(id) == rolledBack:
		j.violation("%s at %s was rolled back", id, at)
		return
	case !known:
		j.violation("%q at %s was never committed", id, at)
		return
	}
	j.content(id, at, r)
	if earlier, again := j.first[id]; again {
		if j.except.duplicates == "" {
			j.violation("%s is at %s and again at %s", id, earlier, at)
		}
		return
	}
	j.first[id] = at
	j.home(id, at, r)
	position, _ := r.Header("position")
	in := lane{partition: at.partition}
	if j.except.rerouted != "" {
		in.origin, _ = r.Header("origin")
	}
	if newest, any := j.newest[in]; any && newest.order > order {
		j.violation("%s (commit %d, position %s) at %s is behind %s (commit %d, position %s)",
			id, order, position, at, newest.id, newest.order, newest.position)
		return
	} else if any && position != "" && position <= newest.position {
		j.violation("%s at %s has position %s, which is not behind %s of %s", id, at, position, newest.position, newest.id)
	}
	j.newest[in] = kept{id: id, position: position, order: order}
}

// content compares the value with the row.
func (j *judgement) content(id string, at place, r harness.Record) {
	want, present := j.payloads[id]
	if !present {
		return // the row was deleted
	}
	got := ""
	if r.Value != nil {
		sum := md5.Sum(r.Value)
		got = hex.EncodeToString(sum[:])
	}
	if got != want {
		j.violation("%s at %s has a value of %d bytes with MD5 %q, the row's is %q", id, at, len(r.Value), got, want)
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
		j.violation("%s of aggregate %q is at %s, others of it are in partition %d", id, name, at, home.number)
	}
	if want := javaPartition(name, j.partitions); int32(want) != r.Partition {
		j.violation("%s of aggregate %q is at %s instead of partition %d", id, name, at, want)
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
		if !slices.Contains(j.except.setAside, id) {
			j.violation("%s was set aside", id)
		}
		if at, published := j.first[id]; published {
			j.violation("%s was set aside and is at %s", id, at)
		}
	}
	for _, id := range j.except.setAside {
		if !slices.Contains(j.setAside, id) {
			j.violation("%s was not set aside", id)
		}
	}
	for i, event := range j.committed {
		if _, published := j.first[event.id]; published || slices.Contains(j.setAside, event.id) {
			continue
		}
		if j.except.incomplete == "" && j.except.moved == "" {
			j.violation("%s (commit %d, ends at %s) is not in Kafka", event.id, i, event.end)
		}
	}
}

// confirmations checks the slot's positions: each of them had only
// acknowledged events behind it, and none was a step back.
func (j *judgement) confirmations() {
	next := 0 // the first event that no sample was past so far
	for i, s := range j.samples {
		if i > 0 {
			j.steps(j.samples[i-1], s)
		}
		if s.confirmed > s.walEnd {
			j.violation("the slot was confirmed up to %s, past the end of the write-ahead log at %s", s.confirmed, s.walEnd)
		}
		for ; next < len(j.committed) && j.committed[next].end <= s.confirmed; next++ {
			j.acknowledged(j.committed[next], s.confirmed, j.endsFrom(i))
		}
	}
}

// endsFrom returns how far the partitions were acknowledged when a sample was
// taken, or as soon after as the brokers said.
func (j *judgement) endsFrom(i int) map[partition]int64 {
	for _, s := range j.samples[i:] {
		if s.ends != nil {
			return s.ends
		}
	}
	return nil
}

// acknowledged checks that an event was in Kafka when the slot was seen past
// it.
func (j *judgement) acknowledged(event walEvent, confirmed pglogrepl.LSN, ends map[partition]int64) {
	at, published := j.first[event.id]
	switch {
	case slices.Contains(j.setAside, event.id):
	case !published && j.except.moved == "":
		j.violation("%s (ends at %s) is not in Kafka, and the slot is confirmed up to %s", event.id, event.end, confirmed)
	case published && ends != nil && at.offset >= ends[at.partition]:
		j.violation("%s (ends at %s) was not yet acknowledged at %s when the slot was confirmed up to %s", event.id, event.end, at, confirmed)
	}
}

// steps compares a sample with the one before.
func (j *judgement) steps(before, now sample) {
	if now.started.Equal(before.started) && now.confirmed < before.confirmed && j.except.moved == "" {
		j.violation("the slot's position went back from %s to %s", before.confirmed, now.confirmed)
	}
	if !now.reported || now.walsender == 0 || now.walsender != before.walsender {
		return
	}
	if now.flush == 0 {
		j.violation("walsender %d was told a flush position of zero", now.walsender)
	}
	if before.reported && now.flush < before.flush {
		j.violation("the flush position told to walsender %d went back from %s to %s", now.walsender, before.flush, now.flush)
	}
}

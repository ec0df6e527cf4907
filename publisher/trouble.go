package publisher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// transientTrouble is how long a fault that goes by itself has to last
	// before it is a trouble: a leader that moves is none.
	transientTrouble = 5 * time.Second
	// maxAlike is how many partitions of a topic are named one by one when they
	// have the same trouble.
	maxAlike = 5
	// maxTroubles bounds the list.
	maxTroubles = 100
)

// Trouble is something on Kafka's side that stands still, or has failed for a
// while.
type Trouble struct {
	// Topic is empty if the trouble is not of one topic.
	Topic string `json:"topic,omitempty"`
	// Partition is nil if the topic as a whole is concerned, or many of its
	// partitions alike.
	Partition *int32    `json:"partition,omitempty"`
	Class     string    `json:"class"` // transient, operator, poison or state
	Reason    string    `json:"reason"`
	Remedy    string    `json:"remedy,omitempty"`
	Since     time.Time `json:"since"`
}

// Troubles returns what stands still now, oldest first; nothing when all is
// well, or no Run is under way. What a person must put right is named at once,
// what goes by itself once it has lasted for 5 s. Any goroutine may call it.
func (p *Publisher) Troubles() []Trouble { return p.troubles.list(time.Now()) }

// troubles is the register of what stands still. There is one entry for each
// thing, replaced when it fails in another way and removed when it goes on.
type troubles struct {
	mu      sync.Mutex // guards entries
	entries map[troubleKey]trouble
}

// troubleKind says what fails.
type troubleKind int

const (
	troubleTopic       troubleKind = iota // a topic cannot be looked up
	troubleLeaders                        // nor can the leaders of its partitions
	troublePartition                      // a partition does not go on
	troubleDeadLetters                    // dead letters cannot be stored
	troubleBrokers                        // no broker answers
)

// troubleKey names the thing. The partition is 0 where there is none.
type troubleKey struct {
	kind      troubleKind
	topic     string
	partition int32
}

// trouble is what is known about it. The texts are made when they are asked
// for, since most faults are gone before.
type trouble struct {
	verdict verdict
	err     error
	since   time.Time
}

func newTroubles() *troubles { return &troubles{entries: make(map[troubleKey]trouble)} }

// note says that a thing fails, at least since a time.
func (t *troubles) note(key troubleKey, v verdict, err error, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.entries[key]; ok && known.since.Before(since) {
		since = known.since
	}
	t.entries[key] = trouble{verdict: v, err: err, since: since}
}

// clear says that a thing goes on.
func (t *troubles) clear(key troubleKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, key)
}

// clearPartitions forgets the partitions of a topic.
func (t *troubles) clearPartitions(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.entries, func(key troubleKey, _ trouble) bool { return key.kind == troublePartition && key.topic == topic })
}

// clearAll is for the end of a session.
func (t *troubles) clearAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.entries)
}

// alike are entries that are told as one when there are many.
type alike struct {
	kind   troubleKind
	topic  string
	class  class
	reason string
}

// list returns what counts as a trouble at a time.
func (t *troubles) list(now time.Time) []Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	groups := make(map[alike][]troubleKey)
	for key, e := range t.entries {
		if e.lasts(now) && !t.covered(key) {
			group := alike{key.kind, key.topic, e.verdict.class, e.verdict.reason}
			groups[group] = append(groups[group], key)
		}
	}
	var all []Trouble
	for _, keys := range groups {
		all = append(all, t.tell(keys)...)
	}
	slices.SortFunc(all, func(a, b Trouble) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Reason, b.Reason))
	})
	return all[:min(len(all), maxTroubles)]
}

// covered reports whether another entry says the same: of a topic that is not
// found the leaders are not either.
func (t *troubles) covered(key troubleKey) bool {
	_, missing := t.entries[troubleKey{kind: troubleTopic, topic: key.topic}]
	return key.kind == troubleLeaders && missing
}

// lasts reports whether a fault counts.
func (e trouble) lasts(now time.Time) bool {
	switch e.verdict.class {
	case classTransient, classState:
		return now.Sub(e.since) >= transientTrouble
	}
	return true
}

// tell returns entries that are alike one by one, or as one if there are many.
func (t *troubles) tell(keys []troubleKey) []Trouble {
	slices.SortFunc(keys, func(a, b troubleKey) int { return cmp.Compare(a.partition, b.partition) })
	var each []Trouble
	for _, key := range keys {
		each = append(each, t.entries[key].of(key))
	}
	if len(each) <= maxAlike {
		return each
	}
	one := slices.MinFunc(each, func(a, b Trouble) int { return a.Since.Compare(b.Since) })
	one.Reason = fmt.Sprintf("%d partitions, among them %d: %s", len(each), *one.Partition, one.Reason)
	one.Partition = nil
	return []Trouble{one}
}

// of returns the entry of a thing as it is told.
func (e trouble) of(key troubleKey) Trouble {
	told := Trouble{
		Topic: key.topic, Class: e.verdict.class.String(), Since: e.since,
		Reason: strings.Join(strings.Fields(e.err.Error()), " "), // one line
		Remedy: e.verdict.remedyFor(key.topic),
	}
	if key.kind == troublePartition {
		told.Partition = &key.partition
	}
	return told
}

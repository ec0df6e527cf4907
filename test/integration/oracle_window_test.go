//go:build linux || darwin

package integration

import (
	"slices"

	"github.com/jackc/pglogrepl"
)

// window is a circumstance of docs/guarantees.md with the events that it can
// concern: those that were on their way while it lasted.
type window struct {
	why string
	// from is a position that the slot was confirmed up to when it began, and
	// that no crash of the server could take back any more; to is the end of
	// the write-ahead log when all was in order again.
	from, to pglogrepl.LSN
	topics   []string // nil is all
	// doubles: an event may be there once for each routing, and once for each
	// life of a topic.
	doubles bool
	// scatters: an aggregate's events may be in any partition.
	scatters bool
	// setAside, if it is not nil, says which events may be set aside.
	setAside func(id string) bool
}

// covers reports whether an event was on its way.
func (w window) covers(event walEvent) bool { return w.from < event.end && event.end <= w.to }

// mayBeDoubled reports whether a window allows another record of an event, and
// counts it. Two records of the same routing in the same topic are never
// allowed.
func (j *judgement) mayBeDoubled(id string, at place) bool {
	for _, other := range append(j.again[id], j.first[id]) {
		if other.origin == at.origin && other.life == at.life && other.topic == at.topic {
			return false
		}
	}
	event := j.committed[j.order[id]]
	for _, w := range j.except.windows {
		if w.doubles && w.covers(event) && (w.topics == nil || slices.Contains(w.topics, at.topic)) {
			j.allowed[w.why]++
			return true
		}
	}
	return false
}

// scattered reports whether the aggregate of an event need not have been in
// one partition.
func (j *judgement) scattered(order int) bool {
	return slices.ContainsFunc(j.except.windows, func(w window) bool { return w.scatters && w.covers(j.committed[order]) })
}

// mayBeSetAside reports whether a window allows that an event was set aside,
// and counts it.
func (j *judgement) mayBeSetAside(id string) bool {
	order, known := j.order[id]
	for _, w := range j.except.windows {
		if known && w.setAside != nil && w.covers(j.committed[order]) && w.setAside(id) {
			j.allowed[w.why]++
			return true
		}
	}
	return false
}

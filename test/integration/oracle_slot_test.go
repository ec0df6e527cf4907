//go:build linux || darwin

package integration

import "github.com/jackc/pglogrepl"

// confirmations checks the slot's positions: each of them had only
// acknowledged events behind it, and none was a step back.
func (j *judgement) confirmations() {
	next := 0 // the first event that no sample was past so far
	for i, s := range j.samples {
		if i > 0 {
			j.steps(j.samples[i-1], s)
		}
		if s.confirmed > s.walEnd {
			j.violation(early, "", "the slot was confirmed up to %s, past the end of the write-ahead log at %s", s.confirmed, s.walEnd)
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
	for _, other := range j.again[event.id] { // they may have been read in another order than written
		if ends != nil && (other.life > 0 || other.offset < ends[other.partition]) {
			return
		}
	}
	switch {
	case j.aside[event.id]:
	case !published && j.except.moved == "":
		j.violation(lost, event.id, "%s (ends at %s) is not in Kafka, and the slot is confirmed up to %s", event.id, event.end, confirmed)
	case published && at.life == 0 && ends != nil && at.offset >= ends[at.partition]:
		j.violation(early, event.id, "%s (ends at %s) was not yet acknowledged at %s when the slot was confirmed up to %s", event.id, event.end, at, confirmed)
	}
}

// steps compares a sample with the one before.
func (j *judgement) steps(before, now sample) {
	if now.started.Equal(before.started) && now.confirmed < before.confirmed && j.except.moved == "" {
		j.violation(otherwise, "", "the slot's position went back from %s to %s", before.confirmed, now.confirmed)
	}
	if !now.reported || now.walsender == 0 || now.walsender != before.walsender {
		return
	}
	if now.flush == 0 {
		j.violation(early, "", "walsender %d was told a flush position of zero", now.walsender)
	}
	if before.reported && now.flush < before.flush {
		j.violation(otherwise, "", "the flush position told to walsender %d went back from %s to %s", now.walsender, before.flush, now.flush)
	}
}

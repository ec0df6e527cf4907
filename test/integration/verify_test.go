//go:build linux || darwin

package integration

import (
	"slices"
	"strings"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// verify is the oracle that every test ends in: it judges all that the test
// has left. It may be called more than once.
func (o *outbox) verify() {
	o.t.Helper()
	o.verifyExcept(exceptions{})
}

// verifyExcept is verify with exceptions.
func (o *outbox) verifyExcept(except exceptions) {
	o.t.Helper()
	j := o.judge(except)
	const shown = 20
	for i, v := range j.found {
		if i == shown {
			o.t.Errorf("and %d more violations", len(j.found)-shown)
			break
		}
		o.t.Errorf("violation: %s", v.text)
	}
	o.t.Logf("verified: %d committed, %d records, %d set aside, %d samples", len(j.committed), j.read, len(j.setAside), len(j.samples))
}

// judge has the oracle judge all that the test has left.
func (o *outbox) judge(except exceptions) *judgement {
	o.t.Helper()
	o.verified = true
	e := evidence{
		committed:  o.ledger.committed(),
		outcome:    o.ledger.outcome,
		sum:        o.config.sum,
		setAside:   o.deadLetters(),
		samples:    o.sampler.taken(),
		partitions: o.partitions,
	}
	for _, removed := range o.removed {
		e.removed = append(e.removed, slices.DeleteFunc(slices.Clone(removed), o.foreign))
	}
	if e.sum == nil {
		payloads := o.payloads()
		e.sum = func(id string) (string, bool) {
			sum, present := payloads[id]
			return sum, present // or the row was deleted
		}
	}
	e.records = func(visit func(harness.Record)) {
		o.eachRecord(func(r harness.Record) {
			if !o.foreign(r) {
				visit(r)
			}
		})
	}
	return e.judge(except)
}

// foreignHeader marks the records that a test has written itself.
const foreignHeader = "foreign"

// foreign reports whether a record is none of this outbox.
func (o *outbox) foreign(r harness.Record) bool {
	if _, marked := r.Header(foreignHeader); marked {
		return true
	}
	id, _ := r.Header("event_id")
	return o.config.foreign != nil && o.config.foreign(numberOf(id))
}

// payloads returns the MD5 of the payload's text of each row that is still in
// the table, "" for NULL.
func (o *outbox) payloads() map[string]string {
	o.t.Helper()
	lines, err := harness.Query[string](o.t.Context(), o.pg, o.database,
		"SELECT id || ' ' || coalesce(md5("+o.payloadBytes()+"), '') FROM "+o.table)
	if err != nil {
		o.t.Fatalf("read the table: %v", err)
	}
	payloads := make(map[string]string, len(lines))
	for _, line := range lines {
		id, sum, _ := strings.Cut(line, " ")
		payloads[id] = sum
	}
	return payloads
}

//go:build linux || darwin

package integration

import (
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
	o.verified = true
	e := evidence{
		committed:  o.ledger.committed(),
		outcome:    o.ledger.outcome,
		payloads:   o.payloads(),
		setAside:   o.deadLetters(),
		samples:    o.sampler.taken(),
		partitions: o.config.partitions,
	}
	read := 0
	e.records = func(visit func(harness.Record)) {
		count := func(r harness.Record) { read++; visit(r) }
		for _, r := range o.removed {
			count(r)
		}
		o.eachRecord(count)
	}
	violations := e.violations(except)
	const shown = 20
	for i, v := range violations {
		if i == shown {
			o.t.Errorf("and %d more violations", len(violations)-shown)
			break
		}
		o.t.Errorf("violation: %s", v)
	}
	o.t.Logf("verified: %d committed, %d records, %d set aside, %d samples", len(e.committed), read, len(e.setAside), len(e.samples))
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

//go:build linux || darwin

package integration

import (
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// patience is how long a condition may take that nothing stands in the way of.
// It is far longer than it should take, for machines that are busy.
const patience = 30 * time.Second

// awaitConfirmed waits until the slot is confirmed up to lsn.
func (o *outbox) awaitConfirmed(lsn pglogrepl.LSN, timeout time.Duration) {
	o.t.Helper()
	harness.Eventually(o.t, timeout, func() error {
		if confirmed := o.confirmed(); confirmed < lsn {
			return fmt.Errorf("the slot is confirmed up to %s, not yet %s", confirmed, lsn)
		}
		return nil
	})
}

// awaitDrained waits until all that was committed so far is confirmed.
func (o *outbox) awaitDrained() {
	o.t.Helper()
	o.awaitConfirmed(o.walEnd(), patience)
}

// awaitRecords waits until the topics hold at least n records. Each acquired
// partition has a marker, which counts as one here.
func (o *outbox) awaitRecords(n int) {
	o.t.Helper()
	harness.Eventually(o.t, patience, func() error {
		if held := o.held(); held < n {
			return fmt.Errorf("the topics hold %d records, not yet %d", held, n)
		}
		return nil
	})
}

// awaitPublished waits until the topics hold all that is committed, whether it
// is confirmed or not.
func (o *outbox) awaitPublished() {
	o.t.Helper()
	want := o.ledger.count(committed)
	harness.Eventually(o.t, patience, func() error {
		if got := len(o.records()); got < want {
			return fmt.Errorf("the topics hold %d records, not yet %d", got, want)
		}
		return nil
	})
}

// hold checks a condition again and again for a while, and ends the test when
// it does not hold.
func (o *outbox) hold(length time.Duration, condition func() error) {
	o.t.Helper()
	begun := time.Now()
	harness.Eventually(o.t, length+patience, func() error {
		if err := condition(); err != nil {
			o.t.Fatal(err)
		}
		if held := time.Since(begun); held < length {
			return fmt.Errorf("it has held for %s, not yet %s", held, length)
		}
		return nil
	})
}

// received returns nil if the relay has told the server that it has read
// everything up to lsn.
func (o *outbox) received(lsn pglogrepl.LSN) error {
	o.t.Helper()
	write := o.lsn(`SELECT coalesce(r.write_lsn, '0/0')::text FROM pg_replication_slots AS s LEFT JOIN pg_stat_replication AS r ON r.pid = s.active_pid
		WHERE s.slot_name = $1`, o.slot)
	if write < lsn {
		return fmt.Errorf("the relay has read up to %s, not yet %s", write, lsn)
	}
	return nil
}

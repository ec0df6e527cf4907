//go:build linux || darwin

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// timeToFirstRecord starts the relay with one row waiting and returns how long
// it takes until that is in its topic, at best: other tests run beside this one.
func (o *outbox) timeToFirstRecord() time.Duration {
	o.t.Helper()
	best := time.Duration(-1)
	for range 3 {
		o.insert(1)
		held := len(o.records())
		begun := time.Now()
		r := o.launch()
		harness.Eventually(o.t, patience, func() error {
			if len(o.records()) == held {
				r.mustRun()
				return fmt.Errorf("the row is not in its topic")
			}
			return nil
		})
		if took := time.Since(begun); best < 0 || took < best {
			best = took
		}
		o.awaitDrained()
		r.stop()
	}
	return best
}

// TestStartAmongManyTables starts the relay in a database with nothing but the
// outbox, and again with thousands of tables beside it, all of which the
// publication holds, and hundreds of publications.
//
// Behaviours: R3
func TestStartAmongManyTables(t *testing.T) {
	const (
		tables, publications = 5000, 500
		bound                = 2 * time.Second
	)
	o := newOutbox(t, outboxConfig{
		sql:         "CREATE PUBLICATION everything FOR ALL TABLES WITH (publish = 'insert')",
		publication: "everything",
	})
	alone := o.timeToFirstRecord()
	o.exec(fmt.Sprintf(`DO $$ BEGIN
		FOR i IN 1..%d LOOP EXECUTE format('CREATE TABLE other_%%s (a int, b int, c int)', i); END LOOP;
		FOR i IN 1..%d LOOP EXECUTE format('CREATE PUBLICATION other_%%1$s FOR TABLE other_%%1$s, outbox_events', i); END LOOP;
	END $$`, tables, publications))
	o.exec("ANALYZE pg_class, pg_attribute, pg_publication, pg_publication_rel")
	// Each start decodes anew from where the slot retains the WAL, which must
	// not be that of what was just created.
	r, end := o.start(), o.walEnd()
	harness.Eventually(t, patience, func() error {
		o.exec("CHECKPOINT")
		if retained := o.lsn("SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = $1", o.slot); retained < end {
			return fmt.Errorf("the slot retains WAL from %s, not yet from %s", retained, end)
		}
		return nil
	})
	r.stop()
	among := o.timeToFirstRecord()
	t.Logf("first record after %s alone, %s among %d tables", alone, among, tables)
	if among > bound {
		t.Errorf("the first record took %s, want less than %s", among, bound)
	}
	if most := 2*alone + 200*time.Millisecond; among > most {
		t.Errorf("the first record took %s, and %s with nothing beside the outbox; want at most %s", among, alone, most)
	}
	o.verify()
}

//go:build linux || darwin

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestSlotAdvancesWhileTheOutboxIsQuiet writes much to a table that is not
// published, and to another database. The slot follows, without a record and
// without a write of ours.
//
// Behaviours: S1
func TestSlotAdvancesWhileTheOutboxIsQuiet(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"autovacuum": "off"}})
	o := newOutbox(t, outboxConfig{postgres: pg})
	elsewhere := harness.NewDatabase(t, pg)
	o.start()
	o.insert(5)
	o.awaitDrained()
	const state = `SELECT (SELECT string_agg(c.xmin || ' ' || c::text, ',') FROM outbox_cdc_checkpoint AS c) || ' ' || (SELECT count(*) FROM outbox_dead_letters)`
	before, held := value[string](o, state), o.held()
	for _, database := range []string{o.database, elsewhere} {
		begun := o.walEnd()
		noise := fmt.Sprintf(`CREATE TABLE noise (n text); ALTER TABLE noise ALTER n SET STORAGE EXTERNAL;
			INSERT INTO noise SELECT repeat(md5(n::text), 32 * 1024) FROM generate_series(1, %d) AS n`, many(60, 200))
		if err := pg.Exec(t.Context(), database, noise); err != nil {
			t.Fatal(err)
		}
		written := o.walEnd() - begun
		t.Logf("%d MB of write-ahead log", written>>20)
		harness.Eventually(t, patience, func() error {
			if lag := value[int64](o, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1", o.slot); lag >= 16<<20 {
				return fmt.Errorf("the slot lags by %d bytes", lag)
			}
			return nil
		})
	}
	if after := value[string](o, state); after != before {
		t.Errorf("the support tables held %q, now %q", before, after)
	}
	if now := o.held(); now != held {
		t.Errorf("the topics hold %d records and markers, before %d", now, held)
	}
	o.verify()
}

// TestSlotOutlivesTheBrokersAbsence takes the brokers away for several times
// wal_sender_timeout while there are events to publish. One session lasts
// throughout.
//
// Behaviours: S2
func TestSlotOutlivesTheBrokersAbsence(t *testing.T) {
	k := proxiedKafka(t, 1)
	timeout := long(2*time.Second, 20*time.Second)
	o := newOutbox(t, outboxConfig{kafka: k, settings: map[string]string{"wal_sender_timeout": timeout.String()}})
	r := o.start()
	o.insert(10)
	o.awaitDrained()
	walsender := o.walsender()
	proxy := k.Broker(0).Proxy()
	proxy.Refuse()
	tx := o.begin()
	tx.bulk(50_000, 1000) // more than the relay and the sockets hold
	tx.commit()
	o.hold(3*timeout+timeout/2, func() error {
		r.mustRun()
		if now := o.walsender(); now != walsender {
			return fmt.Errorf("walsender %d instead of %d:\n%s", now, walsender, r.Stderr())
		}
		return nil
	})
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	o.awaitDrained()
	if now := o.walsender(); now != walsender {
		t.Errorf("the session has not lasted: walsender %d instead of %d", now, walsender)
	}
	o.verify()
}

//go:build linux || darwin

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// holdsBack returns a version of PostgreSQL that has synchronized_standby_slots:
// the one that the tests run on, or 18.
func holdsBack(t *testing.T) int {
	version, err := harness.PostgresVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version < 17 {
		return 18
	}
	return version
}

// TestHealthOfASlotThatIsHeldBack has the server wait for a standby that is not
// there before it sends anything from a failover slot. To the relay that looks
// like a server with nothing to say: it names the setting, and neither its own
// stop nor the server's takes long. Without the setting it goes on.
//
// Behaviours: S23
func TestHealthOfASlotThatIsHeldBack(t *testing.T) {
	const setting = "synchronized_standby_slots"
	pg := harness.NewPostgres(t, harness.PostgresConfig{Version: holdsBack(t)})
	o := newOutbox(t, outboxConfig{postgres: pg})
	o.drop()
	if result := o.command("slot", "create", "--failover"); result.Code != 0 {
		t.Fatalf("slot create ended with %d: %s", result.Code, result.Stderr)
	}
	o.exec("SELECT pg_create_physical_replication_slot('absent_standby', true)")
	r := o.start(serving...)
	o.insert(5)
	o.awaitDrained()

	change := func(slots string) {
		t.Helper()
		if err := pg.Configure(map[string]string{setting: slots}); err != nil {
			t.Fatal(err)
		}
		if err := pg.Reload(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, patience, func() error {
			if now := value[string](o, "SELECT current_setting($1)", setting); now != slots {
				return fmt.Errorf("%s is %q, not yet %q", setting, now, slots)
			}
			return nil
		})
	}
	change("absent_standby")
	o.insert(5)
	r.awaitUnready(time.Minute, o.slot, setting+" = 'absent_standby'", "'absent_standby' has no standby", "pg_reload_conf")
	r.awaitMetric("outbox_cdc_slot_held_back", is(1))
	r.mustLive()
	if n := len(r.log("notice from the server")); n > 2 {
		t.Errorf("the server's notice is in the log %d times", n)
	}
	if took := r.stop(); took > prompt {
		t.Errorf("it took %s to stop, want at most %s", took, prompt)
	}

	r = o.start(serving...)
	const bound = 10 * time.Second
	ctx, cancel := context.WithTimeoutCause(t.Context(), bound, fmt.Errorf("not within %s", bound))
	defer cancel()
	if _, err := pg.Stop(ctx, harness.Fast); err != nil {
		t.Fatalf("fast shutdown: %v", err)
	}
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitLog("session started", 2)
	if n := len(o.records()); n != 5 {
		t.Errorf("the topics hold %d records, want the 5 from before", n)
	}
	change("")
	o.awaitDrained()
	r.awaitReady("active")
	o.verify()
}

// TestSlotThatIsLost has the server remove what the slot needs while the brokers
// stand still. Before, the relay warns; then it does not try again and again,
// but ends with the reason.
//
// Behaviours: S4
func TestSlotThatIsLost(t *testing.T) {
	k := proxiedKafka(t, 1)
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"max_slot_wal_keep_size": "1MB", "checkpoint_timeout": "1h", "max_wal_size": "4GB"}})
	o := newOutbox(t, outboxConfig{postgres: pg, kafka: k})
	r := o.start(serving...)
	o.insert(5)
	o.awaitDrained()
	k.Broker(0).Proxy().Stall(harness.BothWays)
	o.insert(1)
	for range 3 { // a segment each
		o.exec("SELECT pg_switch_wal()")
		o.exec("CREATE TABLE noise (); DROP TABLE noise")
	}
	r.awaitMetric(`outbox_cdc_slot_wal_status{status="unreserved"}`, is(1))
	if safe, found := r.metric("outbox_cdc_slot_safe_wal_bytes"); !found || safe > 0 {
		t.Errorf("safe WAL: %v (there: %v), want less than nothing", safe, found)
	}
	if _, body := r.page("/status"); !strings.Contains(body, "max_slot_wal_keep_size") {
		t.Errorf("/status does not warn: %s", body)
	}
	if said := r.Stderr(); strings.Count(said, "max_slot_wal_keep_size") != 1 {
		t.Errorf("the log does not warn once:\n%s", said)
	}
	// What the slot needs, the ledger needs too.
	o.verifyExcept(exceptions{incomplete: "the brokers take nothing"})
	held, confirmed := o.held(), o.confirmed()
	o.exec("CHECKPOINT")
	r.expectExit(10*time.Second, exitGap, o.slot, "lost", "outbox-cdc slot drop")
	if now := o.held(); now != held {
		t.Errorf("the topics hold %d records and markers, before %d", now, held)
	}
	if now := o.confirmed(); now != confirmed {
		t.Errorf("the slot was confirmed up to %s, before %s", now, confirmed)
	}
}

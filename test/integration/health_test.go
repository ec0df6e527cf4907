//go:build linux || darwin

package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestHealthFollowsTheServers takes away each server in turn and brings it back,
// with a standby beside. Readiness follows, and names what is away; a restart
// would help in no case.
//
// Behaviours: R1
func TestHealthFollowsTheServers(t *testing.T) {
	k := proxiedKafka(t, 1)
	pg := harness.NewPostgres(t, harness.PostgresConfig{})
	o := newOutbox(t, outboxConfig{postgres: pg, kafka: k})
	r := o.start(serving...)
	r.awaitReady("active")
	standby := o.launch(serving...)
	standby.awaitReady("standby")
	if _, body := standby.page("/status"); !strings.Contains(body, fmt.Sprintf(`"holder_pid": %d`, o.walsender())) {
		t.Errorf("the standby does not say who holds the slot: %s", body)
	}
	o.insert(10)
	o.awaitDrained()
	standby.awaitConfirmedInStatus()
	standby.stop()

	k.Broker(0).Proxy().Refuse()
	o.insert(1)
	r.awaitUnready(patience, o.topic("order"))
	r.mustLive()
	if err := k.Broker(0).Proxy().Accept(); err != nil {
		t.Fatal(err)
	}
	r.awaitReady("active")
	o.awaitDrained()

	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	r.awaitUnready(patience, "PostgreSQL", pg.Addr())
	r.awaitMetric(`outbox_cdc_state{state="waiting"}`, is(1))
	r.mustLive()
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitReady("active")
	r.awaitMetric(`outbox_cdc_state{state="active"}`, is(1))
	r.awaitMetric(`outbox_cdc_sessions_ended_total{reason="postgres"}`, func(n float64) bool { return n >= 1 })
	o.insert(10)
	o.awaitDrained()
	r.mustLive()
	o.verify()
}

// TestHealthOfAFrozenProcess asks a process that was frozen, the moment it goes
// on, whether it should be restarted.
//
// Behaviours: R1
func TestHealthOfAFrozenProcess(t *testing.T) {
	o := newOutbox(t, outboxConfig{settings: shortTimeout})
	r := o.start(serving...)
	o.insert(5)
	o.awaitDrained()
	r.pause()
	harness.Eventually(t, patience, func() error {
		if walsender := o.walsender(); walsender != 0 {
			return fmt.Errorf("the server has not yet given up walsender %d", walsender)
		}
		return nil
	})
	r.resume()
	r.mustLive()
	r.awaitReady("active")
	r.mustLive()
	o.insert(5)
	o.awaitDrained()
	o.verify()
}

// TestHealthTellsTheLag holds the lag that the relay tells against the server's
// own account: it grows while the brokers are away, and is back at 0 when all is
// published and nothing happens.
//
// Behaviours: R2
func TestHealthTellsTheLag(t *testing.T) {
	const lag = "outbox_cdc_slot_lag_bytes"
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k, postgres: harness.NewPostgres(t, harness.PostgresConfig{}), settings: shortTimeout})
	r := o.start(serving...)
	o.insert(5)
	o.awaitDrained()
	k.Broker(0).Proxy().Stall(harness.BothWays)
	// Nothing behind this row can be confirmed; inside of a transaction that is
	// still being written, the position can go on.
	o.insert(1)
	before := o.walEnd()
	tx := o.begin()
	tx.bulk(1000, 1000)
	tx.commit()
	behind := float64(o.walEnd() - before)
	r.awaitMetric(lag, func(now float64) bool { return now >= behind })
	if pending, _ := r.metric("outbox_pending_count"); pending == 0 {
		t.Error("nothing is pending, although the brokers take nothing")
	}
	var status struct {
		Slot struct {
			Confirmed string `json:"confirmed_flush_lsn"`
			LagBytes  int64  `json:"lag_bytes"`
		} `json:"slot"`
	}
	if _, body := r.page("/status"); json.Unmarshal([]byte(body), &status) != nil || float64(status.Slot.LagBytes) < behind {
		t.Errorf("/status tells another lag: %s", body)
	}
	if confirmed := o.confirmed().String(); status.Slot.Confirmed != confirmed {
		t.Errorf("/status says that the slot stands at %s, it stands at %s", status.Slot.Confirmed, confirmed)
	}
	k.Broker(0).Proxy().Resume()
	o.awaitDrained()
	r.awaitMetric(lag, is(0))
	if confirmed, _ := r.metric("outbox_cdc_confirmed_lsn"); confirmed < float64(before) {
		t.Errorf("confirmed up to %v, want at least %v", confirmed, float64(before))
	}
	for path, holds := range map[string]string{"/": o.slot, "/status": `"published": 1006`} {
		if code, body := r.page(path); code != http.StatusOK || !strings.Contains(body, holds) {
			t.Errorf("%s says %d and does not hold %q: %s", path, code, holds, body)
		}
	}
	o.verify()
}

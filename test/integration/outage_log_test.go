//go:build linux || darwin

package integration

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestLogStaysShortInAnOutage takes away one side after the other under load.
// The log says so and does not go on about it, and the waiting costs next to
// nothing.
//
// Behaviours: S28
func TestLogStaysShortInAnOutage(t *testing.T) {
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k})
	pg := harness.NewProxy(t, o.pg.Addr())
	r := o.start(append(serving, "--dsn", o.pg.DSNVia(pg.Addr(), superuser, o.database), "--max-in-flight-bytes", "1MiB")...)
	endLoad := o.load(1)
	o.awaitCommitted(100)
	length := long(4*time.Second, 2*time.Minute)
	// A line for each pause of 1, 2, 4, 8 and so on up to 30 s, and the first
	// lines of an outage; of the brokers' twice a minute for each thing that
	// fails.
	atMost := many(20, 99)
	for _, side := range []struct {
		name  string
		proxy *harness.Proxy
		begun func() // waits until the outage is like any later part of it
		over  func() // waits until the relay goes on
	}{
		{"PostgreSQL", pg, func() { r.awaitLog("session ended", 1) }, func() { r.awaitLog("session started", 2) }},
		{"Kafka", k.Broker(0).Proxy(), func() {
			r.awaitMetric("outbox_cdc_in_flight_bytes", func(held float64) bool { return held >= 1<<20 })
		}, func() {}},
	} {
		lines := len(r.log(""))
		side.proxy.Refuse()
		side.begun()
		before := usage(t, r)
		elapsed(t, length)
		after := usage(t, r)
		if said := r.log("")[lines:]; len(said) == 0 || len(said) > atMost {
			t.Errorf("%s was away for %s, and the log has %d lines, want 1 to %d:\n%s", side.name, length, len(said), atMost, r.Stderr())
		}
		cpu, took := after.cpu-before.cpu, after.at.Sub(before.at)
		t.Logf("%s away for %s: %d lines, %s of processor time", side.name, took, len(r.log(""))-lines, cpu)
		if cpu > took/20 {
			t.Errorf("%s was away for %s, which cost %s of processor time", side.name, took, cpu)
		}
		if err := side.proxy.Accept(); err != nil {
			t.Fatal(err)
		}
		side.over()
	}
	endLoad()
	o.awaitConfirmed(o.walEnd(), 2*patience)
	o.verify()
}

// TestLogHoldsNoSecrets has everything go wrong that has payloads and passwords
// at hand, at the level that says most. None of them is anywhere in what the
// relay prints or serves.
func TestLogHoldsNoSecrets(t *testing.T) {
	const payload = "tongue in cheek"
	o := newOutbox(t, outboxConfig{})
	dsn := o.pg.DSNVia(o.pg.Addr(), url.UserPassword("postgres", rightPassword), o.database)
	secrets := []string{payload, rightPassword, wrongPassword, url.QueryEscape(rightPassword), url.PathEscape(rightPassword), url.PathEscape(wrongPassword)}
	search := func(where, text string) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q:\n%s", where, secret, text)
			}
		}
	}
	row := func(aggregateType string) row {
		r := o.rowOf(aggregateType)
		r.payload = `{"said": "` + payload + `"}`
		return r
	}
	// The server's own account of a refused dead letter would hold the row.
	o.exec("ALTER TABLE outbox_dead_letters ADD CONSTRAINT none CHECK (false)")
	r := o.start(append(serving, "--dsn", dsn, "--log-level", "debug")...)
	o.insertRow(row("order"))
	poison := row("has no topic")
	o.insertRow(poison)
	harness.Eventually(t, patience, func() error {
		if !strings.Contains(r.Stderr(), "dead letter") {
			return errors.New("the log does not say that the dead letter was refused")
		}
		return nil
	})
	o.exec("SELECT pg_terminate_backend($1)", o.walsender())
	r.awaitLog("session started", 2)
	for _, path := range []string{"/", "/status", "/metrics", "/readyz"} {
		_, body := r.page(path)
		search(path, body)
	}
	o.exec("ALTER TABLE outbox_dead_letters DROP CONSTRAINT none")
	o.awaitDrained()
	r.stop()
	search("the log", r.Stderr()+r.Stdout())

	refused := o.launch("--dsn", dsn, "--log-level", "debug", "--start-timeout", "2s",
		"--sasl-mechanism", "PLAIN", "--sasl-user", "relay", "--sasl-password", wrongPassword)
	code, err := refused.Wait(t.Context())
	if err != nil || code == 0 {
		t.Errorf("a login at a broker that asks for none: code %d (%v)", code, err)
	}
	search("the log of a refused login", refused.Stderr()+refused.Stdout())
	o.verifyExcept(exceptions{setAside: []string{idOf(poison.number)}})
}

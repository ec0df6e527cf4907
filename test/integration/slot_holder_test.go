//go:build linux || darwin

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

const (
	exitBusy = 7
	waiting  = "waiting for the slot, another process holds it"
)

// TestSlotIsTakenOver has a second relay wait for the slot that the first
// holds, which then is killed.
//
// Behaviours: S3
func TestSlotIsTakenOver(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	first := o.start()
	o.insert(5)
	holder := o.walsender()
	second := o.launch()
	second.awaitLog(waiting, 1)
	if named := second.log(waiting)[0].text("holder_pid"); named != fmt.Sprint(holder) {
		t.Errorf("the log names process %s as the holder, want %d", named, holder)
	}
	if n := len(second.log("session started")); n != 0 {
		t.Error("the second relay has a session too")
	}
	o.launch("--no-wait").expectExit(patience, exitBusy, o.slot, fmt.Sprint(holder))
	endLoad := o.load(2)
	o.awaitCommitted(50)
	first.kill()
	second.awaitLogWithin(5*time.Second, "session started", 1)
	o.awaitCommitted(50)
	endLoad()
	o.awaitDrained()
	o.verify()
}

// TestSlotOfAKilledRelayIsTakenAtOnce starts the relay the moment it was
// killed, again and again.
//
// Behaviours: S3
func TestSlotOfAKilledRelayIsTakenAtOnce(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	endLoad := o.load(2)
	r := o.start()
	for range many(3, 20) {
		o.awaitCommitted(50)
		r.kill()
		r = o.launch()
		r.awaitLogWithin(5*time.Second, "session started", 1)
	}
	endLoad()
	o.awaitDrained()
	o.verify()
}

// TestSlotIsLeftForAFastShutdown stops the server while the relay is idle, and
// again while it has events that the brokers do not take. In both cases the
// server waits for the relay to leave.
//
// Behaviours: S6
func TestSlotIsLeftForAFastShutdown(t *testing.T) {
	k := proxiedKafka(t, 1)
	pg := harness.NewPostgres(t, harness.PostgresConfig{})
	o := newOutbox(t, outboxConfig{postgres: pg, kafka: k})
	o.exec("CREATE TABLE other AS SELECT generate_series(1, 10000) AS n")
	r := o.start()
	o.insert(10)
	o.awaitDrained()
	for i, prepare := range []func(){
		func() { o.exec("UPDATE other SET n = n + 1") },
		func() {
			k.Broker(0).Proxy().Stall(harness.BothWays)
			o.insert(10)
			o.insertBatch(100)
		},
	} {
		prepare()
		const bound = 10 * time.Second
		ctx, cancel := context.WithTimeoutCause(t.Context(), bound, fmt.Errorf("not within %s", bound))
		defer cancel()
		if _, err := pg.Stop(ctx, harness.Fast); err != nil {
			t.Fatalf("fast shutdown: %v", err)
		}
		if err := pg.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.awaitLog("session started", i+2)
	}
	k.Broker(0).Proxy().Resume()
	o.awaitDrained()
	o.verify()
}

// TestSlotOfASilentServer has the server go silent in two ways: its walsender
// hangs, or the connection is dead and neither side knows. The relay finds out
// by itself within twice the timeout, and goes on by itself.
//
// Behaviours: S7
func TestSlotOfASilentServer(t *testing.T) {
	const timeout = 2 * time.Second
	for _, c := range []struct {
		name string
		// silence makes the server silent and returns what ends that.
		silence func(*outbox, *harness.Proxy) (end func() error)
	}{
		{"walsender stopped", func(o *outbox, _ *harness.Proxy) func() error {
			pid := o.walsender()
			pauseWalsender(o.t, pid)
			return func() error { return harness.ResumePID(pid) }
		}},
		{"connection dead", func(_ *outbox, proxy *harness.Proxy) func() error {
			proxy.Swallow(harness.BothWays)
			return func() error { proxy.Resume(); return nil }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOutbox(t, outboxConfig{settings: shortTimeout})
			proxy := harness.NewProxy(t, o.pg.Addr())
			r := o.start("--dsn", o.pg.DSNVia(proxy.Addr(), superuser, o.database), "--silence-timeout", timeout.String())
			o.insert(10)
			o.awaitDrained()
			end := c.silence(o, proxy)
			o.insert(10)
			r.awaitLogWithin(2*timeout, "session ended", 1)
			if err := end(); err != nil {
				t.Fatal(err)
			}
			r.awaitLog("session started", 2)
			o.insert(10)
			o.awaitDrained()
			o.verify()
		})
	}
}

// TestSlotSessionLastsWhileIdle leaves everything alone for many times the
// server's timeout and ours. A relay whose reports keep the server from
// speaking takes that for a dead connection.
//
// Behaviours: S8
func TestSlotSessionLastsWhileIdle(t *testing.T) {
	o := newOutbox(t, outboxConfig{settings: shortTimeout})
	r := o.start("--silence-timeout", "2s")
	o.insert(5)
	o.awaitDrained()
	walsender, lines := o.walsender(), len(r.log(""))
	o.hold(long(10*time.Second, 5*time.Minute), func() error {
		if now := o.walsender(); now != walsender {
			return fmt.Errorf("walsender %d instead of %d:\n%s", now, walsender, r.Stderr())
		}
		return nil
	})
	if now := len(r.log("")); now != lines {
		t.Errorf("the relay had something to say:\n%s", r.Stderr())
	}
	o.insert(5)
	o.awaitDrained()
	o.verify()
}

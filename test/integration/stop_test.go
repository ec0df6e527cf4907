//go:build linux || darwin

package integration

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// exitRuntime is the exit code of a stop that was not in order.
const exitRuntime = 1

// prompt is how long a stop may take that waits for nothing but the server's
// last answer.
const prompt = 3 * time.Second

// TestStopAtAnyTime asks the relay to stop while it is at various things. Only
// acknowledgements are waited for.
func TestStopAtAnyTime(t *testing.T) {
	const shutdownTimeout = 4 * time.Second
	for _, c := range []struct {
		name string
		// prepare brings the relay to where it is to be stopped. It and the
		// database are at the other ends of a proxy, the brokers of another.
		prepare func(o *outbox, r *relay, pg *harness.Proxy)
		signals []syscall.Signal
		code    int
		atMost  time.Duration
		texts   []string
	}{
		{
			name: "idle", prepare: func(*outbox, *relay, *harness.Proxy) {},
			signals: []syscall.Signal{syscall.SIGINT}, code: 0, atMost: prompt,
		},
		{
			name: "waiting for PostgreSQL", prepare: func(_ *outbox, r *relay, pg *harness.Proxy) {
				pg.Refuse()
				r.awaitLog("session ended", 1)
			},
			signals: []syscall.Signal{syscall.SIGTERM}, code: 0, atMost: prompt,
		},
		{
			name: "asking a server that says nothing", prepare: func(_ *outbox, r *relay, pg *harness.Proxy) {
				pg.Cut()
				pg.Swallow(harness.ToServer)
				r.awaitLog("session ended", 1)
				r.awaitUnready(patience, "no session since")
				awaitConnection(r, pg)
			},
			signals: []syscall.Signal{syscall.SIGTERM}, code: 0, atMost: prompt,
		},
		{
			name: "waiting for brokers", prepare: stallWithARowOut,
			signals: []syscall.Signal{syscall.SIGTERM}, code: exitRuntime, atMost: shutdownTimeout + prompt, texts: []string{"--shutdown-timeout"},
		},
		{
			name: "waiting for brokers, told twice", prepare: stallWithARowOut,
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, code: exitRuntime, atMost: prompt,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOutbox(t, outboxConfig{kafka: proxiedKafka(t, 1), settings: shortTimeout})
			pg := harness.NewProxy(t, o.pg.Addr())
			r := o.start(append(serving, "--dsn", o.pg.DSNVia(pg.Addr(), superuser, o.database), "--shutdown-timeout", shutdownTimeout.String())...)
			c.prepare(o, r, pg)
			expectStop(t, r, c.signals, c.code, c.atMost, c.texts...)
			pg.Resume()
			if err := pg.Accept(); err != nil {
				t.Fatal(err)
			}
			o.kafka.Broker(0).Proxy().Resume()
			o.start()
			o.awaitDrained()
			o.verify()
		})
	}
}

// TestStopOfAStandby stops a relay that waits for the slot.
func TestStopOfAStandby(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	o.start()
	standby := o.launch()
	standby.awaitLog(waiting, 1)
	expectStop(t, standby, []syscall.Signal{syscall.SIGTERM}, 0, prompt)
	o.insert(5)
	o.awaitDrained()
	o.verify()
}

// TestStopBeforeTheFirstSession stops a relay that was started while a server is
// away, or says nothing.
func TestStopBeforeTheFirstSession(t *testing.T) {
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k})
	pg := harness.NewProxy(t, o.pg.Addr())
	brokers := k.Broker(0).Proxy()
	for _, c := range []struct {
		name   string
		away   func()
		reason string
		proxy  *harness.Proxy // has the connection of which nothing comes; nil if there is none
	}{
		{"PostgreSQL refuses", pg.Refuse, "PostgreSQL", nil},
		{"PostgreSQL says nothing", func() { pg.Swallow(harness.ToServer) }, "starting", pg},
		{"the brokers refuse", brokers.Refuse, "broker", nil},
		{"the brokers say nothing", func() { brokers.Swallow(harness.ToServer) }, "starting", brokers},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.away()
			r := o.launch(append(serving, "--dsn", o.pg.DSNVia(pg.Addr(), superuser, o.database))...)
			r.awaitUnready(patience, c.reason)
			r.mustLive()
			if c.proxy != nil {
				awaitConnection(r, c.proxy)
			}
			expectStop(t, r, []syscall.Signal{syscall.SIGTERM}, 0, prompt)
			for _, proxy := range []*harness.Proxy{pg, brokers} {
				proxy.Resume()
				if err := proxy.Accept(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	o.insert(5)
	o.start()
	o.awaitDrained()
	o.verify()
}

// TestStopAndRestartLeaveAGapAlone has a supervisor start the relay again and
// again on a slot that was moved. It refuses each time, and what a person needs
// to see what happened stays as it was.
//
// Behaviours: P12
func TestStopAndRestartLeaveAGapAlone(t *testing.T) {
	const record = "SELECT c::text FROM outbox_cdc_checkpoint AS c"
	o := newOutbox(t, outboxConfig{})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	r.stop()
	o.insert(5)
	o.advance()
	moved, recorded, held := o.confirmed(), value[string](o, record), o.held()
	for range 3 {
		o.launch().expectExit(patience, exitGap, o.slot, moved.String())
		if now := o.confirmed(); now != moved {
			t.Errorf("the slot stands at %s, before at %s", now, moved)
		}
		if now := value[string](o, record); now != recorded {
			t.Errorf("the record is %s, before %s", now, recorded)
		}
	}
	if now := o.held(); now != held {
		t.Errorf("the topics hold %d records and markers, before %d", now, held)
	}
	o.verifyExcept(exceptions{moved: movedByHand})
}

// awaitConnection waits until the relay has a connection through a proxy.
func awaitConnection(r *relay, proxy *harness.Proxy) {
	r.o.t.Helper()
	harness.Eventually(r.o.t, patience, func() error {
		r.mustRun()
		if proxy.Connections() == 0 {
			return errors.New("the relay has no connection")
		}
		return nil
	})
}

// expectStop sends signals and checks how the relay ends. A second signal comes
// so late that it is not the first one again, and finds the relay waiting, which
// it has said at once.
func expectStop(t *testing.T, r *relay, signals []syscall.Signal, code int, atMost time.Duration, texts ...string) {
	t.Helper()
	begun := time.Now()
	for i, signal := range signals {
		if i > 0 {
			r.awaitUnready(prompt, "stopping since")
			r.mustLive()
			r.o.hold(300*time.Millisecond, func() error { r.mustRun(); return nil })
		}
		if err := r.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > atMost {
		t.Errorf("it took %s to stop, want at most %s", took, atMost)
	}
	if code != 0 {
		expectFailure(t, harness.Result{Code: got, Stderr: r.Stderr()}, code, texts...)
	} else if got != 0 {
		t.Errorf("exit code %d instead of 0:\n%s", got, r.Stderr())
	}
}

// stallWithARowOut has the relay wait for the acknowledgement of a row.
func stallWithARowOut(o *outbox, _ *relay, _ *harness.Proxy) {
	o.t.Helper()
	o.insert(5)
	o.awaitDrained()
	o.kafka.Broker(0).Proxy().Stall(harness.BothWays)
	o.insert(1)
	// The row has been read when the server has been told so.
	end := o.walEnd()
	harness.Eventually(o.t, patience, func() error { return o.received(end) })
}

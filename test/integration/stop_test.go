//go:build linux || darwin

package integration

import (
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
			r := o.start("--dsn", o.pg.DSNVia(pg.Addr(), superuser, o.database), "--shutdown-timeout", shutdownTimeout.String())
			c.prepare(o, r, pg)
			expectStop(t, r, c.signals, c.code, c.atMost, c.texts...)
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

// expectStop sends signals and checks how the relay ends. A second signal comes
// so late that it is not the first one again, and finds the relay waiting.
func expectStop(t *testing.T, r *relay, signals []syscall.Signal, code int, atMost time.Duration, texts ...string) {
	t.Helper()
	begun := time.Now()
	for i, signal := range signals {
		if i > 0 {
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

//go:build linux || darwin

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestPositionNeverOvershootsTheWAL publishes a payload that takes far less
// room in the write-ahead log than on the wire. A relay that adds its length to
// a position passes the end of the log, and the rows that come there.
//
// Behaviours: P1
func TestPositionNeverOvershootsTheWAL(t *testing.T) {
	o := newOutbox(t, outboxConfig{topicSettings: map[string]string{"max.message.bytes": "2000000"}})
	r := o.start()
	big := o.newRow()
	big.payload = fmt.Sprintf(`{"padding": "%0*d"}`, 1<<20, 0)
	before := o.walEnd()
	o.insertRow(big)
	o.awaitDrained()
	if end := o.walEnd(); end-before > 1<<19 {
		t.Fatalf("the payload took %d bytes of the log, so it proves nothing", end-before)
	}
	r.stop()
	if confirmed, end := o.confirmed(), o.lsn("SELECT pg_current_wal_lsn()::text"); confirmed > end {
		t.Errorf("the slot is confirmed up to %s, past the end of the log at %s", confirmed, end)
	}
	o.insert(50)
	o.start()
	o.awaitDrained()
	o.verify()
}

// TestPositionStaysBehindAStuckPartition takes away the one broker that leads a
// topic for longer than the retry budget of any producer, while another topic
// goes on.
//
// Behaviours: P7, P8
func TestPositionStaysBehindAStuckPartition(t *testing.T) {
	k := proxiedKafka(t, 3)
	o := newOutbox(t, outboxConfig{kafka: k, types: []string{"stuck", "free"}, partitions: 1, replication: 1})
	for topic, broker := range map[string]int{"stuck": 1, "free": 2} {
		if err := k.MoveLeader(t.Context(), o.topic(topic), 0, broker); err != nil {
			t.Fatal(err)
		}
	}
	o.start()
	o.insert(40)
	o.awaitDrained()
	k.Broker(1).Proxy().Refuse()
	o.insertRow(o.rowOf("stuck"))
	bound := o.walEnd()
	held := o.held()
	endLoad := o.load(2)
	o.hold(long(6*time.Second, 150*time.Second), func() error {
		if confirmed := o.confirmed(); confirmed >= bound {
			return fmt.Errorf("the slot is confirmed up to %s, past the event that ends before %s and has no broker", confirmed, bound)
		}
		return nil
	})
	endLoad()
	if now := o.held(); now <= held {
		t.Errorf("the other topic has stood still too: %d records and markers before, %d now", held, now)
	}
	if err := k.Broker(1).Proxy().Accept(); err != nil {
		t.Fatal(err)
	}
	o.awaitDrained()
	o.verify()
}

// TestPositionIgnoresKeepalivesWhileARowIsOut stalls the brokers with one row
// unacknowledged, while other transactions have the server send keepalives with
// positions far behind it.
//
// Behaviours: P10, S2
func TestPositionIgnoresKeepalivesWhileARowIsOut(t *testing.T) {
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k, settings: shortTimeout})
	o.exec("CREATE TABLE other (n int)")
	r := o.start()
	o.insert(20)
	o.awaitDrained()
	walsender := o.walsender()
	k.Broker(0).Proxy().Stall(harness.BothWays)
	o.insert(1)
	bound := o.walEnd()
	o.hold(long(8*time.Second, 60*time.Second), func() error {
		o.exec("INSERT INTO other SELECT generate_series(1, 100)")
		if confirmed := o.confirmed(); confirmed >= bound {
			return fmt.Errorf("the slot is confirmed up to %s, past the row that ends before %s", confirmed, bound)
		}
		if now := o.walsender(); now != walsender {
			return fmt.Errorf("the session has not lasted: walsender %d, before the stall %d", now, walsender)
		}
		return nil
	})
	r.kill()
	k.Broker(0).Proxy().Resume()
	o.start()
	o.awaitDrained()
	o.verify()
}

// TestPositionIsReportedTrulyAtAllTimes reads every status update on its way
// to the server, under load and while connections to the brokers come and go.
//
// Behaviours: P9, K5
func TestPositionIsReportedTrulyAtAllTimes(t *testing.T) {
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k, settings: shortTimeout})
	tap := startTap(t, o.pg.Addr())
	o.start("--dsn", o.pg.DSNVia(tap.addr, superuser, o.database))
	endLoad := o.load(4)
	proxy := k.Broker(0).Proxy()
	disturb := []func(){
		proxy.Cut,
		func() { proxy.Stall(harness.ToClient) },
		func() { proxy.Stall(harness.BothWays) },
		proxy.Refuse,
	}
	for range many(1, 8) {
		for _, disturbance := range disturb {
			disturbance()
			o.awaitCommitted(200)
			proxy.Resume()
			if err := proxy.Accept(); err != nil {
				t.Fatal(err)
			}
			o.awaitCommitted(100)
		}
	}
	endLoad()
	o.awaitDrained()
	tap.judge(o)
	o.verify()
}

// judge checks all status updates that the tap has seen.
func (tap *tap) judge(o *outbox) {
	o.t.Helper()
	sessions := tap.sessions()
	if len(sessions) == 0 {
		o.t.Error("no status update was seen")
	}
	for _, updates := range sessions {
		var last status
		for i, s := range updates {
			switch {
			case s.write == 0 || s.flush == 0 || s.apply == 0:
				o.t.Errorf("status update %d has a zero: %s", i, s)
			case s.flush > s.write || s.apply != s.flush:
				o.t.Errorf("status update %d flushes what was not received, or applies something else: %s", i, s)
			case s.flush < last.flush || s.write < last.write:
				o.t.Errorf("status update %d is behind the one before: %s, %s", i, s, last)
			}
			last = s
		}
	}
	o.t.Logf("%d sessions with %d status updates", len(sessions), len(sessions[0]))
}

func (s status) String() string {
	return fmt.Sprintf("write %s flush %s apply %s", s.write, s.flush, s.apply)
}

// status is a standby status update.
type status struct{ write, flush, apply pglogrepl.LSN }

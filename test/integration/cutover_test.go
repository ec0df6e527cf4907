//go:build linux || darwin

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// polledTable is the outbox of a service with a polling relay.
const polledTable = `CREATE TABLE public.outbox_events (
		id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type varchar(100) NOT NULL, aggregate_id varchar(100) NOT NULL,
		event_type varchar(100) NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz,
		retry_count int NOT NULL DEFAULT 0, status varchar(20) NOT NULL DEFAULT 'PENDING');
	CREATE INDEX ON outbox_events (status, created_at) WHERE status = 'PENDING'`

// poller is a polling relay: it selects what is pending, writes it to Kafka and
// marks it, in a transaction of its own for each batch.
type poller struct {
	o    *outbox
	conn *pgx.Conn
	// published are the ids of the rows that it has published.
	published map[string]bool
}

func newPoller(o *outbox) *poller {
	o.t.Helper()
	conn, err := o.pg.Connect(o.t.Context(), o.database)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &poller{o: o, conn: conn, published: make(map[string]bool)}
}

// start has the poller work until the returned function is called, which lets
// it finish its batch.
func (p *poller) start() (stop func()) {
	ctx, cancel := context.WithCancel(p.o.t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			if err := p.transaction(context.WithoutCancel(ctx), p.batch); err != nil {
				p.o.t.Errorf("poller: %v", err)
				return
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		working.Wait()
	})
	p.o.t.Cleanup(stop)
	return stop
}

// transaction calls do in a transaction.
func (p *poller) transaction(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	tx, err := p.conn.Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(ctx, tx); err != nil {
		_ = tx.Rollback(ctx) // it ends with the connection at the latest
		return err
	}
	return tx.Commit(ctx)
}

// batch publishes and marks what is pending, up to a hundred rows.
func (p *poller) batch(ctx context.Context, tx pgx.Tx) error {
	_, err := p.publish(ctx, tx)
	return err
}

// publish is batch, and returns how many rows there were.
func (p *poller) publish(ctx context.Context, tx pgx.Tx) (int, error) {
	rows, err := tx.Query(ctx, `SELECT ARRAY[id::text, aggregate_type, aggregate_id, event_type, payload::text] FROM outbox_events
		WHERE status = 'PENDING' ORDER BY created_at, id LIMIT 100 FOR UPDATE`)
	if err != nil {
		return 0, err
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[[]string])
	if err != nil || len(events) == 0 {
		return 0, err
	}
	records := make([]*kgo.Record, len(events))
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i], records[i] = e[0], p.record(e)
	}
	if err := p.o.kafka.Produce(ctx, records...); err != nil {
		return 0, err
	}
	for _, id := range ids {
		p.published[id] = true
	}
	_, err = tx.Exec(ctx, "UPDATE outbox_events SET status = 'PUBLISHED', published_at = now() WHERE id::text = ANY($1)", ids)
	return len(ids), err
}

// drain publishes until nothing is pending.
func (p *poller) drain(ctx context.Context, tx pgx.Tx) error {
	for {
		if n, err := p.publish(ctx, tx); err != nil || n == 0 {
			return err
		}
	}
}

// record is what consumers get from the poller: the same as from the relay, but
// for what recognises it.
func (p *poller) record(e []string) *kgo.Record {
	topic := p.o.topic(e[1])
	return &kgo.Record{
		Topic: topic, Partition: int32(javaPartition(e[2], p.o.partitions(topic))), Key: []byte(e[0]), Value: []byte(e[4]),
		Headers: []kgo.RecordHeader{
			{Key: "event_id", Value: []byte(e[0])}, {Key: "event_type", Value: []byte(e[3])},
			{Key: "aggregate_type", Value: []byte(e[1])}, {Key: "aggregate_id", Value: []byte(e[2])},
		},
	}
}

// newPolledOutbox makes an outbox without a slot, with one writer at work and a
// poller that publishes what it commits.
func newPolledOutbox(t *testing.T) (o *outbox, p *poller, stopWriter, stopPoller func()) {
	o = newOutbox(t, outboxConfig{sql: polledTable})
	o.drop()
	p = newPoller(o)
	stopWriter, stopPoller = o.load(1), p.start()
	o.awaitCommitted(100)
	return o, p, stopWriter, stopPoller
}

// mustInit makes the slot beside the old relay.
func (o *outbox) mustInit() {
	o.t.Helper()
	if result := o.command("init"); result.Code != 0 {
		o.t.Fatalf("init ended with %d: %s", result.Code, result.Stderr)
	}
}

// TestCutOverFromPolling goes from a polling relay to this one while the service
// goes on writing, as docs/from-polling.md says: nothing is lost, an aggregate's
// events are in order, and what both have published is what was committed
// between the new slot and the end of the old relay.
func TestCutOverFromPolling(t *testing.T) {
	o, p, stopWriter, stopPoller := newPolledOutbox(t)
	o.mustInit()
	slotAt := o.confirmed()
	older := values[string](o, "SELECT id::text FROM outbox_events WHERE status = 'PENDING'")
	harness.Eventually(t, patience, func() error {
		if left := value[int](o, "SELECT count(*)::int FROM outbox_events WHERE status = 'PENDING' AND id::text = ANY($1)", older); left > 0 {
			return fmt.Errorf("%d rows that are older than the slot are still pending", left)
		}
		return nil
	})
	o.awaitCommitted(50)
	stopPoller()
	r := o.start()
	o.awaitCommitted(100)
	stopWriter()
	o.awaitDrained()
	r.stop()

	twice := 0
	for _, e := range o.ledger.committed() {
		if p.published[e.id] && e.end > slotAt {
			twice++
		}
	}
	if twice == 0 {
		t.Error("the old relay has published nothing behind the slot, so nothing was tried")
	}
	o.verifyCutOver(p, twice)
}

// TestCutOverFromPollingWithoutADuplicate is TestCutOverFromPolling with a lock
// on the table for as long as the old relay drains it and the slot is moved to
// where it has come: nothing is published twice.
func TestCutOverFromPollingWithoutADuplicate(t *testing.T) {
	o, p, stopWriter, stopPoller := newPolledOutbox(t)
	o.mustInit()
	o.awaitCommitted(50)
	stopPoller()
	err := p.transaction(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE outbox_events IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		if err := p.drain(ctx, tx); err != nil {
			return err
		}
		if result := o.command("slot", "advance", "--to", "now", "--yes"); result.Code != 0 {
			return fmt.Errorf("slot advance ended with %d: %s", result.Code, result.Stderr)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := o.start()
	o.awaitCommitted(100)
	stopWriter()
	o.awaitDrained()
	r.stop()
	o.verifyCutOver(p, 0)
}

// verifyCutOver has the oracle judge what two relays have published together,
// and counts what both have.
func (o *outbox) verifyCutOver(p *poller, twice int) {
	o.t.Helper()
	j := o.judge(exceptions{
		duplicates: "two relays have published what was committed while both had it",
		moved:      "the slot was made behind rows that the old relay had yet to publish",
		rerouted:   "the old relay's records have no origin",
	})
	for _, v := range j.found {
		// The slot was never the position of what the old relay has published.
		if v.kind != early {
			o.t.Errorf("violation: %s", v.text)
		}
	}
	both, lost := 0, 0
	for _, e := range j.committed {
		if _, published := j.first[e.id]; !published {
			lost++
		}
		if again := len(j.again[e.id]); again > 0 {
			both += again
			if !p.published[e.id] {
				o.t.Errorf("%s is there %d times, and not from the old relay", e.id, again+1)
			}
		}
	}
	if lost > 0 || both != twice {
		o.t.Errorf("%d of %d events are lost, %d are there twice, want 0 and %d", lost, len(j.committed), both, twice)
	}
	o.t.Logf("%d committed, %d published by the old relay, %d twice, %d lost", len(j.committed), len(p.published), both, lost)
}

//go:build linux || darwin

package integration

import (
	"fmt"
	"strings"
	"testing"
)

// TestMessagesWithoutATable publishes logical messages alone: there is no outbox
// table. One that is no event is set aside with its reason and what it held, and
// those that are not transactional are told once and not published. The relay is
// killed in between.
func TestMessagesWithoutATable(t *testing.T) {
	o := bareOutbox(t, "", "order")
	flags := []string{"--message-prefix", "outbox", "--table", ""}
	o.mustCommand(append([]string{"init"}, flags...)...)
	if got := value[int](o, "SELECT count(*)::int FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('outbox_cdc_checkpoint', 'outbox_dead_letters')"); got != 0 {
		t.Errorf("init has made %d tables beside the support tables", got)
	}
	var want []event
	emit := func(n int) {
		for range n {
			id := fmt.Sprintf("m-%03d", len(want))
			o.exec("SELECT pg_logical_emit_message(true, 'outbox', $1::text)", fmt.Sprintf(
				`{"id": "%s", "aggregate_type": "order", "aggregate_id": 7, "event_type": "Placed", "payload": {"n": 1.10}, "metadata": {"by": "é"}}`, id))
			want = append(want, event{"order", "7", id, "Placed", `{"n": 1.10}`, map[string]string{"by": "é"}})
		}
	}
	r := o.start(flags...)
	emit(5)
	o.exec("BEGIN; SELECT pg_logical_emit_message(true, 'outbox', '{\"id\": \"rolled back\", \"aggregate_type\": \"order\", \"aggregate_id\": \"7\"}'); ROLLBACK")
	o.exec("SELECT pg_logical_emit_message(true, 'other', '{\"id\": \"x\", \"aggregate_type\": \"order\", \"aggregate_id\": \"7\"}')")
	o.exec("SELECT pg_logical_emit_message(false, 'outbox', '{\"id\": \"y\", \"aggregate_type\": \"order\", \"aggregate_id\": \"7\"}') FROM generate_series(1, 3)")
	o.exec(`SELECT pg_logical_emit_message(true, 'outbox', '[1]')`)
	o.awaitDrained()
	r.kill()
	emit(5)
	r = o.start(flags...)
	emit(5)
	o.exec("SELECT pg_logical_emit_message(false, 'outbox', 'z') FROM generate_series(1, 3)")
	emit(1)
	o.awaitDrained()
	r.stop()
	o.expectEvents(want...)
	if got := value[string](o, "SELECT string_agg(reason || ' ' || columns, ', ') FROM outbox_dead_letters"); got != `invalid_message {"content":"\\x5b315d"}` {
		t.Errorf("got the dead letters %s", got)
	}
	if said := r.log("a logical message is not transactional and not published; emit it with pg_logical_emit_message(true, ...)"); len(said) != 1 {
		t.Errorf("stray messages were told %d times, want once", len(said))
	}
	if counted := r.log("logical messages that are not transactional were not published"); len(counted) != 1 || counted[0].text("messages") != "3" {
		t.Errorf("got %v, want a count of 3", counted)
	}
}

// TestMessagesAmongRows mixes messages and rows of a table within transactions
// about one aggregate: they arrive in the order in which they were written, each
// with a position of its own.
func TestMessagesAmongRows(t *testing.T) {
	o := bareOutbox(t, "", "order")
	o.mustCommand("init", "--message-prefix", "outbox")
	r := o.start("--message-prefix", "outbox")
	const rows = 20
	var script strings.Builder
	for i := range rows {
		fmt.Fprintf(&script, `SELECT pg_logical_emit_message(true, 'outbox', '{"id": "%d", "aggregate_type": "order", "aggregate_id": "a", "event_type": "message", "payload": null}');
			INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type) VALUES ('00000000-0000-0000-0000-%012d', 'order', 'a', 'row');`, 2*i, 2*i+1)
	}
	o.exec(script.String())
	o.awaitDrained()
	r.stop()
	records := o.records()
	if len(records) != 2*rows {
		t.Fatalf("the topic holds %d records, want %d", len(records), 2*rows)
	}
	last := ""
	for i, record := range records {
		want, kind := fmt.Sprint(i), "message"
		if i%2 == 1 {
			want, kind = fmt.Sprintf("00000000-0000-0000-0000-%012d", i), "row"
		}
		if string(record.Key) != want || header(t, record, "event_type") != kind || record.Value != nil {
			t.Errorf("record %d is %s, %s, of %q; want %s, %s, a tombstone", i, record.Key, header(t, record, "event_type"), record.Value, want, kind)
		}
		if position := header(t, record, "position"); position <= last {
			t.Errorf("record %d has position %s behind %s", i, position, last)
		} else {
			last = position
		}
	}
}

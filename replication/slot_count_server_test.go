//go:build linux || darwin

package replication

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestRowsToSkipAreCounted(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	ctx := t.Context()
	o.exec(`CREATE SCHEMA "My-App"; CREATE TABLE "My-App"."It's" (a int) PARTITION BY LIST (a);
CREATE TABLE part PARTITION OF "My-App"."It's" DEFAULT; CREATE TABLE unpublished (a int);
ALTER PUBLICATION outbox ADD TABLE "My-App"."It's"`)
	o.insert(1200) // more than the first look
	o.exec(`SELECT pg_logical_emit_message(true, 'outbox', '{}') FROM generate_series(1, 4);
SELECT pg_logical_emit_message(true, 'outbox2', '{}'), pg_logical_emit_message(true, 'outbo', '{}'), pg_logical_emit_message(false, 'outbox', '{}')`)
	o.exec(`INSERT INTO "My-App"."It's" VALUES (1), (2); INSERT INTO unpublished VALUES (1)`)
	o.exec("UPDATE outbox_events SET event_type = 'x' WHERE aggregate_id = '1'")
	o.exec("BEGIN; INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type) VALUES ('a', 'b', 'c'); ROLLBACK")
	middle, err := walEnd(ctx, o.conn)
	if err != nil {
		t.Fatal(err)
	}
	o.insert(3)
	count := func(publication string, within time.Duration) Skipped {
		t.Helper()
		cfg := o.cfg
		cfg.Publication = publication
		skipped, err := CountSkipped(ctx, o.conn, cfg, o.slot(), middle, within)
		if err != nil {
			t.Fatal(err)
		}
		return skipped
	}
	before := o.slot()
	want := Skipped{Complete: true, Tables: []SkippedTable{{`"My-App"."It's"`, 2}, {`"public"."outbox_events"`, 1200}}}
	if got := count("outbox", time.Minute); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	o.cfg.MessagePrefix, want.Messages = "outbox", 4
	if got := count("outbox", time.Minute); !reflect.DeepEqual(got, want) {
		t.Errorf("with messages: got %+v, want %+v", got, want)
	}
	o.cfg.MessagePrefix = ""
	if err := o.at(before.Confirmed); err != nil {
		t.Errorf("counting moved the slot: %v", err)
	}
	if got := count("nowhere", time.Minute); got.Complete || !strings.Contains(got.Reason, `publication "nowhere" does not exist`) {
		t.Errorf("got %+v", got)
	}
	if got := count("outbox", time.Nanosecond); got.Complete || got.Reason != "not all could be counted in 1ns" {
		t.Errorf("got %+v", got)
	}
	if _, _, err := AdvanceSlot(ctx, o.conn, o.cfg.Slot, middle); err != nil {
		t.Fatal(err)
	}
	if got, err := CountSkipped(ctx, o.conn, o.cfg, o.slot(), middle, time.Minute); err != nil || !got.Complete || got.Rows() != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := CountSkipped(ctx, o.conn, o.cfg, o.slot(), middle+1<<20, time.Minute); err != nil || got.Rows() != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	// What counts is what would be sent: these rows are what a session gets.
	s := o.open()
	s.consume(t, 3)
	s.finish(t)
}

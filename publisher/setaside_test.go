package publisher

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

func TestPoisonIsSetAsideInOrder(t *testing.T) {
	bad := map[string]struct {
		event  event
		reason Reason
	}{
		"aggregate type is NULL":       {event{id: "bad", aggregateID: "a", eventType: "T", payload: "{}"}, ReasonNoAggregateType},
		"aggregate id is NULL":         {event{id: "bad", aggregateType: "order", eventType: "T", payload: "{}"}, ReasonNoAggregateID},
		"event id is NULL":             {event{aggregateType: "order", aggregateID: "a", eventType: "T", payload: "{}"}, ReasonNoID},
		"topic is no name for Kafka":   {event{id: "bad", aggregateType: "Bestellung Ä", aggregateID: "a", payload: "{}"}, ReasonInvalidTopic},
		"topic is too long":            {event{id: "bad", aggregateType: strings.Repeat("x", 250), aggregateID: "a", payload: "{}"}, ReasonInvalidTopic},
		"metadata is no JSON object":   {event{id: "bad", aggregateType: "order", aggregateID: "a", payload: "{}", metadata: "[1]"}, ReasonInvalidMetadata},
		"record larger than the topic": {event{id: "bad", aggregateType: "order", aggregateID: "a", payload: strings.Repeat("x", 200<<10)}, ReasonTooLarge},
	}
	for name, tt := range bad {
		t.Run(name, func(t *testing.T) {
			fake := newFake(t)
			limit := fmt.Sprint(100 << 10)
			if err := fake.CreateTopic(testTopic, 1, map[string]string{"max.message.bytes": limit}); err != nil {
				t.Fatal(err)
			}
			h := &history{}
			h.commit(order("e1", "a"), tt.event, order("e2", "a"))
			l := &letters{}
			p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
			if err := h.publish(testContext(t), t, p, l); err != nil {
				t.Fatal(err)
			}
			h.check(t, fake.ListenAddrs(), 1, fmt.Sprint(tt.event.id))
			tx := h.transactions[0]
			want := decoder.Position{CommitLSN: tx.commit, Index: 1, CommitTime: tx.at.UnixMicro()}
			if got := l.reasons(); len(got) != 1 || got[want] != tt.reason {
				t.Errorf("dead letters: got %v, want %s at %s", got, tt.reason, want)
			}
		})
	}
}

func TestHaltStopsBeforeAnythingBehindThePoison(t *testing.T) {
	fake := newFake(t)
	if err := fake.CreateTopic(testTopic, 1, map[string]string{"max.message.bytes": "100000"}); err != nil {
		t.Fatal(err)
	}
	h := &history{}
	h.commit(order("e1", "a"))
	large := order("bad", "a")
	large.payload = strings.Repeat("x", 200<<10)
	h.commit(large, order("e2", "a"))
	cfg := testConfig(fake.ListenAddrs())
	cfg.OnPoison = PolicyHalt
	p := newTestPublisher(t, cfg)
	err := h.publish(testContext(t), t, p, &letters{})
	if !errors.Is(err, ErrHalted) || !strings.Contains(err.Error(), `"bad"`) || !strings.Contains(err.Error(), string(ReasonTooLarge)) {
		t.Errorf("got error %v, want one that names the event and the reason", err)
	}
	records := readAll(t, fake.ListenAddrs(), testTopic, 1)[0]
	if len(records) != 1 || string(records[0].Key) != "e1" {
		t.Errorf("got %d records, want e1 alone", len(records))
	}
	if got, want := h.slot(), h.transactions[0].end; got > want {
		t.Errorf("slot: got confirmed to %s, want at most %s", got, want)
	}
}

// A batch as a whole may be too large for a topic whose records are not.
func TestBatchTooLargeIsSplit(t *testing.T) {
	fake := newFake(t)
	if err := fake.CreateTopic(testTopic, 1, map[string]string{"max.message.bytes": "4000"}); err != nil {
		t.Fatal(err)
	}
	h := manyOrders(1, 500)
	l := &letters{}
	if err := h.publish(testContext(t), t, newTestPublisher(t, testConfig(fake.ListenAddrs())), l); err != nil {
		t.Fatal(err)
	}
	h.check(t, fake.ListenAddrs(), 1)
	if got := l.reasons(); len(got) > 0 {
		t.Errorf("got dead letters %v, want none", got)
	}
}

// A topic that refuses everything has been reconfigured; its events are not at
// fault, and the outbox is not emptied into the dead letters.
func TestTopicThatRefusesEverythingStandsStill(t *testing.T) {
	fake := newFake(t, kfake.SeedTopics(1, testTopic))
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1})
	h := manyOrders(1, 60)
	l := &letters{}
	ctx := testContext(t)
	p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
	done := make(chan error, 1)
	go func() { done <- h.publish(ctx, t, p, l) }()
	waitFor(t, func() bool { return len(l.reasons()) >= maxRefusals })
	if err := fault.Wait(ctx, fault.Hits()+2); err != nil {
		t.Error(err)
	}
	fault.Remove()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := len(l.reasons()); got != maxRefusals {
		t.Errorf("got %d dead letters, want %d", got, maxRefusals)
	}
	var refused []string
	for _, e := range h.transactions[0].events[:maxRefusals] {
		refused = append(refused, fmt.Sprint(e.id))
	}
	h.check(t, fake.ListenAddrs(), 1, refused...)
}

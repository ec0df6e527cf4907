package publisher

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopicIsMadeWhereTheBrokersMakeTopics(t *testing.T) {
	fake := newFake(t, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(2))
	h := manyOrders(5, 2)
	if err := h.publish(testContext(t), t, newTestPublisher(t, testConfig(fake.ListenAddrs())), &letters{}); err != nil {
		t.Fatal(err)
	}
	h.check(t, fake.ListenAddrs(), 2)
}

// Events of a topic that does not come are set aside if that is asked for. Then
// nothing stands still.
func TestUnknownTopicIsSetAside(t *testing.T) {
	t.Parallel()
	cfg := testConfig(newFake(t).ListenAddrs())
	cfg.OnUnknownTopic = UnknownTopicDeadLetter
	p := newTestPublisher(t, cfg)
	h := manyOrders(3, 2)
	var aside letters
	if err := h.publish(testContext(t), t, p, &aside); err != nil {
		t.Fatal(err)
	}
	reasons := aside.reasons()
	for position, reason := range reasons {
		if reason != ReasonUnknownTopic {
			t.Errorf("event at %s was set aside for %s, want %s", position, reason, ReasonUnknownTopic)
		}
	}
	if len(reasons) != 6 || p.Progress().DeadLettered != 6 || h.slot() != h.end() {
		t.Errorf("set aside: %d events, %+v; the slot stands at %s of %s", len(reasons), p.Progress(), h.slot(), h.end())
	}
}

// A topic that gets more partitions switches over between two events of an
// aggregate, and both arrive.
func TestMorePartitionsWhileStreaming(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.SeedTopics(1, testTopic))
	h := manyOrders(50, 2)
	ctx := testContext(t)
	p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
	if err := h.publish(ctx, t, p, &letters{}); err != nil {
		t.Fatal(err)
	}
	if err := addPartitions(ctx, fake.ListenAddrs(), testTopic, 3); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		h.commit(order(fmt.Sprintf("later-%d", i), fmt.Sprintf("aggregate-%d", i%17)))
	}
	if err := h.publish(ctx, t, p, &letters{}); err != nil {
		t.Fatal(err)
	}
	used := 0
	total := 0
	for _, records := range readAll(t, fake.ListenAddrs(), testTopic, 200) {
		used++
		total += len(records)
	}
	if used != 3 || total != 200 {
		t.Errorf("got %d records in %d partitions, want 200 in 3", total, used)
	}
}

func addPartitions(ctx context.Context, brokers []string, topic string, n int32) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewCreatePartitionsRequest()
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, n
	request.Topics = append(request.Topics, t)
	_, err = request.RequestWith(ctx, client)
	return err
}

func TestTopicNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"outbox.event.Order_9-a":    true,
		"a":                         true,
		strings.Repeat("x", 249):    true,
		strings.Repeat("x", 250):    false,
		"":                          false,
		".":                         false,
		"..":                        false,
		"...":                       true,
		"outbox event":              false,
		"outbox/event":              false,
		"bestellung.ä":              false,
		"outbox.event.\xff":         false,
		"outbox.event.order\n":      false,
		"outbox.event.{order}":      false,
		"outbox.event.order\x00new": false,
	} {
		if got := validTopic(name); got != valid {
			t.Errorf("validTopic(%q) = %t, want %t", name, got, valid)
		}
		if got := validTopic([]byte(name)); got != valid {
			t.Errorf("validTopic of the bytes of %q = %t, want %t", name, got, valid)
		}
	}
}

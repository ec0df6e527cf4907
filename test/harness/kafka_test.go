//go:build linux || darwin

package harness

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// produce writes records with values "0", "1", ... to a partition.
func produce(t *testing.T, k *Kafka, topic string, partition int32, n int, opts ...kgo.Opt) {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(k.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range n {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Append(nil, i)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKafkaReadsWhatWasWrittenBetweenControlBatches(t *testing.T) {
	k := SharedKafka(t, 1)
	topic := NewTopic(t, k, TopicConfig{Partitions: 3})
	produce(t, k, topic, 1, 3)
	// A transaction that is aborted leaves a control batch at the end.
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...), kgo.TransactionalID(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("aborted")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if err := k.DeleteRecords(t.Context(), topic, 1, 1); err != nil {
		t.Fatal(err)
	}
	Eventually(t, 10*time.Second, func() error {
		records, err := k.ReadAll(t.Context(), topic)
		if err != nil {
			return err
		}
		got := ""
		for _, r := range records {
			got += string(r.Value) + " "
		}
		if want := "aborted 1 2 "; got != want && got != "1 2 aborted " && got != "1 aborted 2 " {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

func TestKafkaFollowsATopicThatDoesNotExistYet(t *testing.T) {
	k := SharedKafka(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	topic := Name(t)
	records, err := k.Follow(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.CreateTopic(ctx, topic, TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	produce(t, k, topic, 0, 2)
	for want := range 2 {
		r, ok := <-records
		if !ok {
			t.Fatal("no record within the deadline")
		}
		if got := string(r.Value); got != fmt.Sprint(want) {
			t.Errorf("got %q, want %d", got, want)
		}
	}
}

func TestKafkaBrokersLeaveAndComeBack(t *testing.T) {
	k := NewKafka(t, KafkaConfig{Brokers: 3})
	ctx := t.Context()
	topic := NewTopic(t, k, TopicConfig{Partitions: 1})
	leaves := []struct {
		name        string
		leave, back func(*Broker) error
	}{
		{"stopped", func(b *Broker) error { _, err := b.Stop(ctx); return err }, func(b *Broker) error { return b.Start(ctx) }},
		{"killed", (*Broker).Kill, func(b *Broker) error { return b.Start(ctx) }},
		{"paused", (*Broker).Pause, (*Broker).Resume},
	}
	for i, l := range leaves {
		if err := k.MoveLeader(ctx, topic, 0, i); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		if err := l.leave(k.Broker(i)); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		Eventually(t, 20*time.Second, func() error {
			leader, err := k.Leader(ctx, topic, 0)
			if err == nil && leader == i {
				err = fmt.Errorf("%s broker still leads", l.name)
			}
			return err
		})
		if err := l.back(k.Broker(i)); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
	}
	if err := k.AddPartitions(ctx, topic, 4); err != nil {
		t.Fatal(err)
	}
	if err := k.AlterTopic(ctx, topic, map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
}

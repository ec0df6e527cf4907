package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// The tests of this file change what the topics hold, or the database, between
// a crash and the next start. Nothing may be lost by that; each says how many
// duplicates it costs.

// past is a history whose events are all in the topic, and of which the slot
// has confirmed nothing: the process died in between.
type past struct {
	*history
	t       *testing.T
	brokers []string
	topic   string
	admin   *kadm.Client
	headers Profile // the default one if it is not set
}

func (p past) profile() Profile { return cmp.Or(p.headers, HeadersPlain) }

func newPast(t *testing.T, partitions int32) past {
	t.Helper()
	fake := newFake(t, kfake.SeedTopics(partitions, testTopic))
	return pastOn(t, fake.ListenAddrs(), testTopic)
}

// pastOn is newPast on other brokers, for a topic that is empty.
func pastOn(t *testing.T, brokers []string, topic string) past {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	p := past{history: manyOrders(40, 4), t: t, brokers: brokers, topic: topic, admin: kadm.NewClient(client)}
	p.publishUnconfirmed()
	return p
}

// Records are recognised under the names of every profile, and not under those of
// another.
func TestProfilesBehindACrash(t *testing.T) {
	for _, profile := range []Profile{HeadersDebezium, HeadersCloudEvents} {
		t.Run(string(profile), func(t *testing.T) {
			p := newPast(t, 2)
			p.headers = profile
			p.publishUnconfirmed() // all of it again
			p.goOn()
			p.wantTwice(p.events())
		})
	}
}

func (p past) config() Config {
	cfg := testConfig(p.brokers)
	cfg.Topic, cfg.Headers = p.topic, p.profile()
	return cfg
}

// publishUnconfirmed publishes what the slot has, and confirms none of it.
func (p past) publishUnconfirmed() {
	p.t.Helper()
	entries := make(chan *decoder.Chunk, 4)
	ctx := testContext(p.t)
	go p.stream(ctx, entries)
	in := p.session(entries, &letters{})
	in.Confirm = func(checkpoint.Mark) {}
	if err := newTestPublisher(p.t, p.config()).Run(ctx, in); err != nil {
		p.t.Fatal(err)
	}
}

// goOn runs sessions of a new process until all is published and confirmed.
func (p past) goOn() {
	p.t.Helper()
	p.goOnWith(p.config())
}

// goOnWith is goOn with another configuration.
func (p past) goOnWith(cfg Config) {
	p.t.Helper()
	ctx := testContext(p.t)
	publisher := newTestPublisher(p.t, cfg)
	for {
		err := p.publish(ctx, p.t, publisher, &letters{})
		if err == nil {
			break
		}
		if !errors.Is(err, ErrStartOver) {
			p.t.Fatal(err)
		}
	}
	if p.slot() != p.end() {
		p.t.Errorf("slot: got confirmed to %s, want %s", p.slot(), p.end())
	}
}

// records returns what the topic holds, by partition.
func (p past) records() map[int32][]*kgo.Record {
	p.t.Helper()
	ctx, cancel := context.WithCancel(testContext(p.t))
	defer cancel()
	starts, err := p.admin.ListStartOffsets(ctx, p.topic)
	if err != nil {
		p.t.Fatal(err)
	}
	ends, err := p.admin.ListEndOffsets(ctx, p.topic)
	if err != nil {
		p.t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...), kgo.ConsumeTopics(p.topic), kgo.KeepControlRecords())
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	unread := make(map[int32]bool)
	ends.Each(func(end kadm.ListedOffset) {
		if start, _ := starts.Lookup(p.topic, end.Partition); start.Offset < end.Offset {
			unread[end.Partition] = true
		}
	})
	got := make(map[int32][]*kgo.Record)
	for len(unread) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			p.t.Fatalf("partitions %v were not read to their end", unread)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, _ := ends.Lookup(p.topic, r.Partition); r.Offset == end.Offset-1 {
				delete(unread, r.Partition)
			}
			if !r.Attrs.IsControl() {
				got[r.Partition] = append(got[r.Partition], r)
			}
		})
	}
	return got
}

// wantTwice checks that every event of the history is in the topic, and how
// many of them are there more than once.
func (p past) wantTwice(want int) {
	p.t.Helper()
	if n := p.twice(); n != want {
		p.t.Errorf("%d events are there twice, want %d", n, want)
	}
}

// twice checks that every event of the history is in the topic, and none more
// than twice, and returns how many are there twice.
func (p past) twice() int {
	p.t.Helper()
	times := make(map[string]int)
	for _, records := range p.records() {
		for _, r := range records {
			for _, h := range r.Headers {
				if slices.Contains([]string{"event_id", "id", "ce_id"}, h.Key) {
					times[string(h.Value)]++
				}
			}
		}
	}
	twice := 0
	for _, tx := range p.transactions {
		for _, e := range tx.events {
			switch n := times[fmt.Sprint(e.id)]; {
			case n == 0:
				p.t.Errorf("event %s is lost", e.id)
			case n == 2:
				twice++
			case n > 2:
				p.t.Errorf("event %s is there %d times", e.id, n)
			}
		}
	}
	return twice
}

// events returns how many events the history has.
func (p past) events() int {
	n := 0
	for _, tx := range p.transactions {
		n += len(tx.events)
	}
	return n
}

// With another routing, what the old one wrote is not looked for.
func TestAnotherConfigurationBehindACrash(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		again  bool
	}{
		{"the same", func(*Config) {}, false},
		{"what does not route", func(c *Config) { c.Compression, c.MaxInFlightBytes, c.OnPoison = "gzip", 2<<20, PolicyHalt }, false},
		{"another key", func(c *Config) { c.Key = KeyAggregateID }, true},
		{"another way to the partition", func(c *Config) { c.PartitionBy = PartitionByKey }, true},
		{"the partition by a column", func(c *Config) { c.PartitionBy = "column:aggregate_id" }, true},
		{"event types left out", func(c *Config) { c.ExcludeTypes = []string{"OrderCancelled"} }, true},
		{"without headers to be recognised by", func(c *Config) { c.PositionHeaders = false }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPast(t, 2)
			cfg := p.config()
			tt.change(&cfg)
			p.goOnWith(cfg)
			if tt.again {
				p.wantTwice(p.events())
			} else {
				p.wantTwice(0)
			}
		})
	}
}

// A batch that was under way when its topic was deleted is taken by the next
// topic of that name. With another number of partitions it is not recognised
// there.
func TestTopicMadeAgainTakesALateBatch(t *testing.T) {
	for _, tt := range []struct {
		partitions int32
		again      bool
	}{{2, false}, {3, true}} {
		t.Run(fmt.Sprint(tt.partitions, " partitions instead of 2"), func(t *testing.T) {
			t.Parallel() // a tail of another producer is waited for
			p := newPast(t, 2)
			late := p.records()[0]
			if _, err := p.admin.DeleteTopic(t.Context(), p.topic); err != nil {
				t.Fatal(err)
			}
			if _, err := p.admin.CreateTopic(t.Context(), tt.partitions, 3, nil, p.topic); err != nil {
				t.Fatal(err)
			}
			p.write(0, late...)
			p.goOn()
			if tt.again {
				p.wantTwice(len(late))
			} else {
				p.wantTwice(0)
			}
		})
	}
}

// write writes records again, headers and all, into a partition.
func (p past) write(partition int32, records ...*kgo.Record) {
	p.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	for _, r := range records {
		again := &kgo.Record{Topic: p.topic, Partition: partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
		if err := client.ProduceSync(p.t.Context(), again).FirstErr(); err != nil {
			p.t.Fatal(err)
		}
	}
}

// What was routed by the old number of partitions is not looked for, so
// everything that was not confirmed comes again.
func TestPartitionsAddedBehindACrash(t *testing.T) {
	p := newPast(t, 2)
	if _, err := p.admin.CreatePartitions(t.Context(), 3, p.topic); err != nil {
		t.Fatal(err)
	}
	p.goOn()
	p.wantTwice(p.events())
}

package publisher

import (
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
}

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

func (p past) config() Config {
	cfg := testConfig(p.brokers)
	cfg.Topic = p.topic
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
	ctx := testContext(p.t)
	publisher := newTestPublisher(p.t, p.config())
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
	times := make(map[string]int)
	for _, records := range p.records() {
		for _, r := range records {
			times[string(r.Key)]++
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
	if twice != want {
		p.t.Errorf("%d events are there twice, want %d", twice, want)
	}
}

// events returns how many events the history has.
func (p past) events() int {
	n := 0
	for _, tx := range p.transactions {
		n += len(tx.events)
	}
	return n
}

func TestCrashAloneDoublesNothing(t *testing.T) {
	p := newPast(t, 2)
	p.goOn()
	p.wantTwice(0)
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

func TestRecordsRemovedBehindACrash(t *testing.T) {
	tests := []struct {
		name string
		keep int64 // records at the end of each partition
		lost bool
	}{
		{"all but the last", 1, false},
		{"all of them", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPast(t, 2)
			before := p.records()
			ends, err := p.admin.ListEndOffsets(t.Context(), p.topic)
			if err != nil {
				t.Fatal(err)
			}
			offsets := make(kadm.Offsets)
			ends.Each(func(end kadm.ListedOffset) {
				offsets.AddOffset(p.topic, end.Partition, end.Offset-tt.keep, -1)
			})
			if deleted, err := p.admin.DeleteRecords(t.Context(), offsets); err != nil || deleted.Error() != nil {
				t.Fatal(err, deleted.Error())
			}
			p.goOn()
			after := p.records()
			for partition, records := range before {
				want := slices.Clone(records[len(records)-int(tt.keep):])
				if tt.lost {
					want = records
				}
				if got := after[partition]; !slices.Equal(ids(got), ids(want)) {
					t.Errorf("partition %d: got %v, want %v", partition, ids(got), ids(want))
				}
			}
		})
	}
}

func ids(records []*kgo.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, string(r.Key))
	}
	return all
}

// A copy of one of our own records, to the last byte, behind our own: what
// mirrors, replays and recovery tools write.
func TestCopiesOfOurRecords(t *testing.T) {
	tests := []struct {
		name string
		// from is how far before the end of partition 0 the original stands,
		// to the partition of the copy.
		from int
		to   int32
		// again is how many events that costs; -1 is all of the partition.
		again int
	}{
		{"the newest, in its own partition", 1, 0, 0},
		{"an older one, in its own partition", 10, 0, 9},
		{"the newest, in another partition", 1, 1, -1},
		{"an older one, in another partition", 10, 1, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // a tail of another producer is waited for
			p := newPast(t, 2)
			records := p.records()
			original := records[0][len(records[0])-tt.from]
			client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			forged := &kgo.Record{
				Topic: p.topic, Partition: tt.to, Key: original.Key, Value: original.Value, Headers: original.Headers, Timestamp: original.Timestamp,
			}
			if err := client.ProduceSync(t.Context(), forged).FirstErr(); err != nil {
				t.Fatal(err)
			}
			p.goOn()
			p.wantAgain(records, tt.to, original, tt.again)
		})
	}
}

// wantAgain checks that what was in the topic is still there, and that behind
// the copy of original in one partition the last n events of that partition
// came again, all of them if n is -1.
func (p past) wantAgain(before map[int32][]*kgo.Record, to int32, original *kgo.Record, n int) {
	p.t.Helper()
	for partition, records := range p.records() {
		want := ids(before[partition])
		if partition == to {
			from := len(want) - n
			if n < 0 {
				from = 0
			}
			want = slices.Concat(want, []string{string(original.Key)}, want[from:])
		}
		if got := ids(records); !slices.Equal(got, want) {
			p.t.Errorf("partition %d:\n got %v\nwant %v", partition, got, want)
		}
	}
}

// The database goes back to an earlier state and goes on from there otherwise:
// what it commits then has the positions of what is in the topic.
func TestRestoredDatabase(t *testing.T) {
	for _, tt := range []struct {
		name string
		more int // transactions that the new history has, of 30 that the old one had
	}{
		{"that has not come as far again", 10},
		{"that has gone further", 50},
		{"to the very position", 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPast(t, 2)
			kept := &history{transactions: slices.Clone(p.transactions[:10]), confirmed: p.transactions[4].end}
			p.history = kept
			for n := range tt.more {
				kept.commit(order(fmt.Sprint("restored-", n, "-a"), fmt.Sprint("aggregate-", n%17)), order(fmt.Sprint("restored-", n, "-b"), fmt.Sprint("aggregate-", n%13)))
			}
			p.goOn()
			counts := 0
			for _, tx := range kept.transactions[5:10] {
				counts += len(tx.events)
			}
			p.wantTwice(counts)
		})
	}
}

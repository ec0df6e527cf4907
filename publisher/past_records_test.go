package publisher

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

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
			p.write(tt.to, original)
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

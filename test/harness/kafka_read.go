//go:build linux || darwin

package harness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is a record as the neutral consumer found it.
type Record struct{ *kgo.Record }

// Header returns the value of the first header of a name, and whether there is
// one.
func (r Record) Header(name string) (string, bool) {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value), true
		}
	}
	return "", false
}

// ReadAll returns everything that the topics hold at the moment, by topic,
// partition and offset. Control batches are left out, records of aborted
// transactions are not.
func (k *Kafka) ReadAll(ctx context.Context, topics ...string) ([]Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	var records []Record
	if err := k.ReadEach(ctx, func(r Record) { records = append(records, r) }, topics...); err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return records, nil
}

// ReadEach is ReadAll for more than should be in memory at once: it calls visit
// with each record, those of a partition in order, and takes as long as ctx
// lets it.
func (k *Kafka) ReadEach(ctx context.Context, visit func(Record), topics ...string) error {
	starts, err := k.Admin().ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("start offsets: %w", err)
	}
	ends, err := k.Admin().ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("end offsets: %w", err)
	}
	from := make(map[string]map[int32]kgo.Offset)
	open := 0 // partitions not yet read to their end
	starts.Each(func(start kadm.ListedOffset) {
		end, known := ends.Lookup(start.Topic, start.Partition)
		if !known || end.Offset <= start.Offset {
			return
		}
		if from[start.Topic] == nil {
			from[start.Topic] = make(map[int32]kgo.Offset)
		}
		from[start.Topic][start.Partition] = kgo.NewOffset().At(start.Offset)
		open++
	})
	if open == 0 {
		return nil
	}
	return k.read(ctx, from, ends, open, visit)
}

// read consumes until every partition has reached its end. Control records are
// consumed too, since the last offset may be one.
func (k *Kafka) read(ctx context.Context, from map[string]map[int32]kgo.Offset, ends kadm.ListedOffsets, open int, visit func(Record)) error {
	client, err := kgo.NewClient(append(k.clientOptions(), kgo.ConsumePartitions(from), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for open > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w; %d partitions not read to their end", context.Cause(ctx), open)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, _ := ends.Lookup(r.Topic, r.Partition)
			if r.Offset == end.Offset-1 {
				open--
			}
			if r.Offset < end.Offset && !r.Attrs.IsControl() {
				visit(Record{r})
			}
		})
	}
	return nil
}

// Follow delivers the records of topics from the beginning and as they arrive,
// also of topics that do not exist yet. The channel is closed when ctx ends;
// until then it must be read.
func (k *Kafka) Follow(ctx context.Context, topics ...string) (<-chan Record, error) {
	client, err := kgo.NewClient(append(k.clientOptions(),
		kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.UnknownTopicRetries(-1))...)
	if err != nil {
		return nil, err
	}
	records := make(chan Record)
	go func() {
		defer close(records)
		defer client.Close()
		for {
			fetches := client.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			for r := range fetches.RecordsAll() {
				select {
				case records <- Record{r}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return records, nil
}

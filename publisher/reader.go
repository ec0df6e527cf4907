package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

const (
	// fetchBytes is what one fetch asks for. A broker sends one whole batch at
	// least, however large that is.
	fetchBytes = 256 << 10
	// fetchBytesLimit bounds how far a fetch grows for a batch that a broker did
	// not send whole.
	fetchBytesLimit = 64 << 20
	// fetchWait is how long a broker may wait for something new.
	fetchWait = 200 * time.Millisecond
)

// reader reads one partition from its leader. It follows the leader when it
// moves. It belongs to one goroutine.
type reader struct {
	cluster   *cluster
	topic     string
	topicID   sarama.Uuid
	partition int32
	// failedAt is when a leader last failed; a leader known from before that is
	// not believed.
	failedAt time.Time
	// retry waits before the next attempt after err, or returns why there is
	// none.
	retry func(ctx context.Context, err error) error
}

// errUnreadable is returned when the bytes of an answer make no sense, or the
// batches in it cannot be decompressed.
var errUnreadable = errors.New("the records cannot be decoded")

// unreadableTries is how often such an answer is asked for.
const unreadableTries = 3

// errTopicReplaced is returned when the topic was deleted and created again: what
// is known about its partitions belongs to another topic.
var errTopicReplaced = errors.New("the topic was deleted and created again")

// onLeader runs a call on the leader until it succeeds, retry gives up, or trying
// again is of no use.
func (r *reader) onLeader(ctx context.Context, call func(*sarama.Broker) error) error {
	for unreadable := 0; ; {
		err := r.tryLeader(ctx, call)
		if err == nil || errors.Is(err, errTopicReplaced) {
			return err
		}
		if errors.Is(err, errUnreadable) {
			if unreadable++; unreadable == unreadableTries {
				return err
			}
		}
		r.failedAt = time.Now()
		if err := r.retry(ctx, err); err != nil {
			return err
		}
	}
}

func (r *reader) tryLeader(ctx context.Context, call func(*sarama.Broker) error) error {
	leader, topic, err := r.cluster.leader(ctx, r.topic, r.partition, r.failedAt)
	if unknown := (sarama.Uuid{}); topic.id != r.topicID && topic.id != unknown && r.topicID != unknown {
		return fmt.Errorf("topic %q: %w", r.topic, errTopicReplaced)
	}
	if err != nil {
		return err
	}
	return r.cluster.call(ctx, leader, call)
}

// bounds are the offsets between which a partition can be read.
type bounds struct {
	// start is the log start offset.
	start int64
	// end is the high watermark: the offset behind the last readable record.
	end int64
}

// bounds asks the leader for them.
func (r *reader) bounds(ctx context.Context) (bounds, error) {
	start, err := r.offset(ctx, sarama.OffsetOldest)
	if err != nil {
		return bounds{}, err
	}
	end, err := r.offset(ctx, sarama.OffsetNewest)
	return bounds{start, end}, err
}

func (r *reader) offset(ctx context.Context, which int64) (int64, error) {
	var offset int64
	err := r.onLeader(ctx, func(broker *sarama.Broker) error {
		request := sarama.NewOffsetRequest(r.cluster.calls.conf.Version)
		request.AddBlock(r.topic, r.partition, which, 1)
		answer, err := broker.GetAvailableOffsets(request)
		if err != nil {
			return err
		}
		block := answer.GetBlock(r.topic, r.partition)
		if block == nil {
			return sarama.ErrIncompleteResponse
		}
		offset = block.Offset
		return refusal(block.Err)
	})
	if err != nil {
		return 0, fmt.Errorf("ListOffsets of %s/%d: %w", r.topic, r.partition, err)
	}
	return offset, nil
}

// entry is one record or control batch of a partition.
type entry struct {
	offset     int64
	control    bool
	producerID int64
	epoch      int16
	record     *sarama.Record // nil in a control batch or an old format
}

// page is what one fetch brought.
type page struct {
	entries []entry
	// next is where to read on.
	next int64
	// start and end are the log start offset and the high watermark.
	start, end int64
	// bytes is about what the entries hold.
	bytes int
}

// fetch reads from offset on. An empty page with next at offset says that there
// is nothing more yet; the broker has then waited a moment for it. Offsets that
// are no more are skipped.
func (r *reader) fetch(ctx context.Context, offset int64) (page, error) {
	moved := false
	for size := int32(fetchBytes); ; {
		block, err := r.fetchOnce(ctx, offset, size)
		if errors.Is(err, sarama.ErrOffsetOutOfRange) {
			if moved {
				err = fmt.Errorf("%w: %w", errTruncated, err)
			} else if offset, err = r.nearest(ctx, offset); err == nil {
				moved = true
				continue
			}
		}
		if err != nil {
			return page{}, fmt.Errorf("fetch %s/%d from offset %d: %w", r.topic, r.partition, offset, err)
		}
		p := newPage(block, offset)
		if p.next > offset || p.end <= offset {
			return p, nil
		}
		if size >= fetchBytesLimit {
			// Nothing can be made of what stands here.
			p.next = offset + 1
			return p, nil
		}
		size *= 4
	}
}

func (r *reader) fetchOnce(ctx context.Context, offset int64, size int32) (*sarama.FetchResponseBlock, error) {
	var block *sarama.FetchResponseBlock
	err := r.onLeader(ctx, func(broker *sarama.Broker) error {
		request := &sarama.FetchRequest{
			Version:      11,
			MaxWaitTime:  int32(fetchWait / time.Millisecond),
			MinBytes:     1,
			MaxBytes:     size,
			Isolation:    sarama.ReadUncommitted,
			SessionEpoch: -1, // no fetch session
		}
		request.AddBlock(r.topic, r.partition, offset, size, -1)
		answer, err := broker.Fetch(request)
		if _, answered := codeOf(err); err != nil && !answered && !isBroken(err) {
			return fmt.Errorf("%w: %w", errUnreadable, err)
		}
		if err != nil {
			return err
		}
		if err := refusal(sarama.KError(answer.ErrorCode)); err != nil {
			return err
		}
		if block = answer.GetBlock(r.topic, r.partition); block == nil {
			return sarama.ErrIncompleteResponse
		}
		return refusal(block.Err)
	})
	return block, err
}

// nearest returns the offset nearest to the one given that can be read.
func (r *reader) nearest(ctx context.Context, offset int64) (int64, error) {
	b, err := r.bounds(ctx)
	if err != nil {
		return 0, err
	}
	return min(max(offset, b.start), b.end), nil
}

// newPage lists the entries from offset on. A batch may begin before it.
func newPage(block *sarama.FetchResponseBlock, offset int64) page {
	p := page{next: offset, start: max(block.LogStartOffset, 0), end: block.HighWaterMarkOffset}
	for _, records := range block.RecordsSet {
		if batch := records.RecordBatch; batch != nil && !batch.PartialTrailingRecord {
			p.addBatch(batch, offset)
		}
		if set := records.MsgSet; set != nil {
			p.addOldFormat(set, offset)
		}
	}
	return p
}

func (p *page) addBatch(batch *sarama.RecordBatch, from int64) {
	p.next = max(p.next, batch.LastOffset()+1)
	for _, record := range batch.Records {
		e := entry{
			offset:     batch.FirstOffset + record.OffsetDelta,
			control:    batch.Control,
			producerID: batch.ProducerID,
			epoch:      batch.ProducerEpoch,
		}
		if !batch.Control {
			e.record = record
			p.bytes += len(record.Key) + len(record.Value) + 100
		}
		if e.offset >= from {
			p.entries = append(p.entries, e)
		}
	}
}

// addOldFormat lists messages from before Kafka 0.11, which have no headers and
// so are never ours.
func (p *page) addOldFormat(set *sarama.MessageSet, from int64) {
	for _, message := range set.Messages {
		p.next = max(p.next, message.Offset+1)
		if message.Offset >= from {
			p.entries = append(p.entries, entry{offset: message.Offset, producerID: -1})
		}
	}
}

package publisher

import (
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

const (
	// maxBatchBytes bounds a batch before compression. It stays well below the
	// default limit of a broker, 1 MiB.
	maxBatchBytes = 512 << 10
	// maxRequestBytes bounds what goes into one request, one large batch
	// excepted.
	maxRequestBytes = 1 << 20
	// minCompressBytes is the size from which a batch is compressed; below, it
	// costs more than it saves.
	minCompressBytes = 2 << 10

	minBlockBytes = 4 << 10
	maxBlockBytes = 128 << 10
	minRecords    = 8
)

// batch is a run of consecutive records of one partition with the memory of
// their rows. It is sent, retried and acknowledged as one.
type batch struct {
	records []record
	// block is the memory that the next rows go to, filled that of those before.
	block  []byte
	filled [][]byte
	// shared says that records and blocks belong to another batch too.
	shared bool
	// held is the memory of the blocks and records.
	held int64
	// bytes estimates the size on the wire before compression.
	bytes int

	// numbered says that the batch has its sequence numbers, from sequence on,
	// as of producer; no more when the partition has been acquired anew. In
	// between it is never changed: a retry sends the same records.
	numbered bool
	producer identity
	sequence int32
	// stamp gives the records their timestamps, from the first send on.
	stamp stamp
	// attempts counts the sends under these numbers; firstAttempt is the time
	// of the first.
	attempts     int
	firstAttempt time.Time
	// reading counts the requests that the records are in and that have not
	// been answered or given up: a sender may read them.
	reading int
	// doubt says that the records may be in the partition: some attempt was
	// neither acknowledged nor refused before the append.
	doubt bool

	// poison, on a batch of one record, keeps that record from being sent.
	poison *Poison
}

// add copies a record into the batch and returns the memory that it took, from
// m.
func (b *batch) add(r record, m *memory) int64 {
	before := b.held
	if need := r.row.Bytes(); need > cap(b.block)-len(b.block) {
		b.nextBlock(need, m)
	}
	if len(b.records) == cap(b.records) {
		b.growRecords(m)
	}
	r.row, b.block = r.row.AppendTo(b.block)
	b.records = append(b.records, r)
	b.bytes += r.wireBytes()
	return b.held - before
}

// nextBlock begins a block with room for a row of need bytes. Each is twice the
// one before, so that a batch of one small row is small.
func (b *batch) nextBlock(need int, m *memory) {
	size := max(minBlockBytes, min(2*cap(b.block), maxBlockBytes))
	for size < need && size < maxBlockBytes {
		size *= 2
	}
	if cap(b.block) > 0 {
		b.filled = append(b.filled, b.block)
	}
	if need > size {
		b.block = make([]byte, 0, need)
	} else {
		b.block = m.block(size)
	}
	b.held += int64(cap(b.block))
}

// growRecords makes room for twice as many records.
func (b *batch) growRecords(m *memory) {
	small := b.records
	b.records = append(m.records(max(minRecords, 2*cap(small))), small...)
	b.held += int64(cap(b.records)-cap(small)) * recordBytes
	if b.reading == 0 {
		m.giveRecords(small)
	}
}

// full reports whether another record of n bytes has to go to a new batch.
func (b *batch) full(n int) bool { return len(b.records) > 0 && b.bytes+n > maxBatchBytes }

// last returns the position of the newest record.
func (b *batch) last() decoder.Position { return b.records[len(b.records)-1].position }

// number gives the batch its sequence numbers.
func (b *batch) number(producer identity, first int32) {
	b.numbered, b.producer, b.sequence = true, producer, first
}

// reset makes the batch one that was never sent.
func (b *batch) reset() {
	b.numbered = false
	b.attempts = 0
	b.doubt = false
}

// split divides a batch that is too large as a whole. Sequence numbers, if it
// has any, stay with their records.
func (b *batch) split() (left, right *batch) {
	half := len(b.records) / 2
	left, right = &batch{records: b.records[:half:half], shared: true}, &batch{records: b.records[half:], shared: true}
	for _, part := range []*batch{left, right} {
		part.stamp = b.stamp
		for _, r := range part.records {
			part.bytes += r.wireBytes()
		}
	}
	// The halves share the blocks; the left one answers for their memory until
	// it is gone, the right one for its own part from then on.
	left.held = b.held * int64(half) / int64(len(b.records))
	right.held = b.held - left.held
	if b.numbered {
		left.number(b.producer, b.sequence)
		right.number(b.producer, advanceSequence(b.sequence, half))
	}
	return left, right
}

// newestTimestamp returns the newest record timestamp of the batch.
func (b *batch) newestTimestamp() time.Time {
	newest := b.stamp.of(&b.records[0])
	for i := range b.records {
		newest = max(newest, b.stamp.of(&b.records[i]))
	}
	return time.UnixMicro(newest)
}

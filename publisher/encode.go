package publisher

import (
	"math"
	"time"

	"github.com/IBM/sarama"
)

// advanceSequence returns the sequence number n records behind first. It wraps
// after 2^31-1 to 0, as the Java client does (DefaultRecordBatch).
func advanceSequence(first int32, n int) int32 {
	return int32((int64(first) + int64(n)) & math.MaxInt32)
}

// encode makes the wire form of the batch: its records with the sequence
// numbers from first on.
func (b *batch) encode(id identity, first int32, codec sarama.CompressionCodec) {
	n := len(b.records)
	if b.bytes < minCompressBytes {
		codec = sarama.CompressionNone
	}
	oldest := time.UnixMicro(b.records[0].position.CommitTime).Truncate(time.Millisecond)
	b.wire = &sarama.RecordBatch{
		Version: 2, Codec: codec, CompressionLevel: sarama.CompressionLevelDefault,
		ProducerID: id.producerID, ProducerEpoch: id.epoch, FirstSequence: first,
		FirstTimestamp: oldest, MaxTimestamp: b.newestTimestamp().Truncate(time.Millisecond),
		LastOffsetDelta: int32(n - 1),
		Records:         make([]*sarama.Record, n),
	}
}

// fill gives the wire form the objects of its records. It is called right
// before a send and undone by drain right after, so that they live no longer
// than sarama needs them: it keeps the encoded bytes for a retry.
func fill(wire *sarama.RecordBatch, batch []record, plans *plans, key Key, origin []byte) {
	records := make([]sarama.Record, len(batch))
	headers := newHeaderWriter(plans, len(batch), origin)
	ends := make([]int, len(batch))
	for i, r := range batch {
		headers.write(r)
		ends[i] = len(headers.headers)
		records[i] = sarama.Record{
			Key: headers.key(key), Value: headers.get(&headers.plan.payload),
			OffsetDelta:    int64(i),
			TimestampDelta: time.UnixMicro(r.position.CommitTime).Truncate(time.Millisecond).Sub(wire.FirstTimestamp),
		}
		wire.Records[i] = &records[i]
	}
	pointers := make([]*sarama.RecordHeader, len(headers.headers))
	for i := range headers.headers {
		pointers[i] = &headers.headers[i]
	}
	start := 0
	for i, end := range ends {
		records[i].Headers = pointers[start:end:end]
		start = end
	}
}

// drain drops the objects of the records. Their number stays.
func drain(wire *sarama.RecordBatch) { clear(wire.Records) }

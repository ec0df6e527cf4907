package publisher

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/IBM/sarama"
)

// Offsets in a record batch of version 2 (Kafka protocol guide, "Record
// Batch"). The length counts what is behind it, the checksum covers what is
// behind it.
const (
	batchLengthAt     = 8
	batchMagicAt      = 16
	batchCRCAt        = 17
	batchAttributesAt = 21
	batchHeadBytes    = 61

	batchMagic = 2
)

// advanceSequence returns the sequence number n records behind first. It wraps
// after 2^31-1 to 0, as the Java client does (DefaultRecordBatch).
func advanceSequence(first int32, n int) int32 {
	return int32((int64(first) + int64(n)) & math.MaxInt32)
}

// encoder makes the wire form of batches, in memory that it keeps. One goroutine
// has it at a time.
type encoder struct {
	codec      sarama.CompressionCodec
	castagnoli *crc32.Table

	headers  headerWriter
	compress compressor
	plain    []byte // the records of a batch before they are compressed
	request  []byte
}

func newEncoder(plans *plans, codec sarama.CompressionCodec) *encoder {
	return &encoder{
		codec: codec, castagnoli: crc32.MakeTable(crc32.Castagnoli),
		headers: headerWriter{values: values{plans: plans}},
	}
}

// appendBatch appends the record batch of a shipment. The same shipment gives
// the same records each time.
func (e *encoder) appendBatch(b []byte, sh *shipment) ([]byte, error) {
	codec := e.codec
	if sh.bytes < minCompressBytes {
		codec = sarama.CompressionNone
	}
	start := len(b)
	b = append(b, make([]byte, batchHeadBytes)...)
	b, err := e.appendRecords(b, sh, codec)
	if err != nil {
		return nil, err
	}
	e.writeHead(b[start:], sh, codec)
	return b, nil
}

// writeHead fills in what is in front of the records. Offset and leader epoch
// stay 0: the broker sets them.
func (e *encoder) writeHead(b []byte, sh *shipment, codec sarama.CompressionCodec) {
	first, newest := milliseconds(sh.stamp.of(&sh.records[0])), int64(0)
	for i := range sh.records {
		newest = max(newest, milliseconds(sh.stamp.of(&sh.records[i])))
	}
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(len(b)-batchLengthAt-4))
	b[batchMagicAt] = batchMagic
	head := b[batchAttributesAt:batchAttributesAt]
	head = binary.BigEndian.AppendUint16(head, uint16(codec))
	head = binary.BigEndian.AppendUint32(head, uint32(len(sh.records)-1))
	head = binary.BigEndian.AppendUint64(head, uint64(first))
	head = binary.BigEndian.AppendUint64(head, uint64(newest))
	head = binary.BigEndian.AppendUint64(head, uint64(sh.producer.producerID))
	head = binary.BigEndian.AppendUint16(head, uint16(sh.producer.epoch))
	head = binary.BigEndian.AppendUint32(head, uint32(sh.sequence))
	binary.BigEndian.AppendUint32(head, uint32(len(sh.records)))
	binary.BigEndian.PutUint32(b[batchCRCAt:], crc32.Checksum(b[batchAttributesAt:], e.castagnoli))
}

func (e *encoder) appendRecords(b []byte, sh *shipment, codec sarama.CompressionCodec) ([]byte, error) {
	base := milliseconds(sh.stamp.of(&sh.records[0]))
	e.headers.origin = sh.origin
	if codec == sarama.CompressionNone {
		for i := range sh.records {
			b = e.appendRecord(b, sh, i, base)
		}
		return b, nil
	}
	e.plain = e.plain[:0]
	for i := range sh.records {
		e.plain = e.appendRecord(e.plain, sh, i, base)
	}
	return e.compress.append(b, e.plain, codec)
}

// appendRecord appends record i of a shipment. Its timestamp is written as the
// difference to base.
func (e *encoder) appendRecord(b []byte, sh *shipment, i int, base int64) []byte {
	r, index := &sh.records[i], int64(i)
	headers := e.headers.of(r)
	key, value := e.headers.key(), e.headers.value(r)
	age := milliseconds(sh.stamp.of(r)) - base

	size := 1 + varintBytes(age) + varintBytes(index) + fieldBytes(key) + fieldBytes(value) + varintBytes(int64(len(headers)))
	for i := range headers {
		size += fieldBytes(headers[i].Key) + fieldBytes(headers[i].Value)
	}
	b = binary.AppendVarint(b, int64(size))
	b = append(b, 0) // attributes, unused
	b = binary.AppendVarint(b, age)
	b = binary.AppendVarint(b, index)
	b = appendField(b, key)
	b = appendField(b, value)
	b = binary.AppendVarint(b, int64(len(headers)))
	for i := range headers {
		b = appendField(b, headers[i].Key)
		b = appendField(b, headers[i].Value)
	}
	return b
}

// appendField appends bytes with their length, which is -1 for NULL.
func appendField(b, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(field))), field...)
}

// fieldBytes is how much appendField appends.
func fieldBytes(field []byte) int {
	if field == nil {
		return varintBytes(-1)
	}
	return varintBytes(int64(len(field))) + len(field)
}

// varintBytes is the length of a number in zigzag form.
func varintBytes(n int64) int {
	length := 1
	for rest := (uint64(n)<<1 ^ uint64(n>>63)) >> 7; rest > 0; rest >>= 7 {
		length++
	}
	return length
}

// milliseconds returns the timestamp of a record. Brokers refuse those before
// 1970.
func milliseconds(micros int64) int64 { return max(micros, 0) / 1000 }

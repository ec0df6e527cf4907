package publisher

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// recordsOf are the records of events as the stream brings them, of one
// transaction each.
func recordsOf(events ...event) []record {
	h := &history{}
	for _, e := range events {
		h.commit(e)
	}
	chunks := make(chan *decoder.Chunk, len(events)) // room for all
	h.stream(context.Background(), chunks)
	var records []record
	for chunk := range chunks {
		records = append(records, record{row: chunk.Entries[0].Row, position: chunk.Entries[0].Position})
	}
	return records
}

func newTestEncoder(t *testing.T, codec sarama.CompressionCodec) *encoder {
	t.Helper()
	r, err := newRouter(testConfig(nil), Session{})
	if err != nil {
		t.Fatal(err)
	}
	return newEncoder(r.plans, codec)
}

// topicsOf reads the topics of a produce request.
func topicsOf(t *testing.T, encoded []byte) []kmsg.ProduceRequestTopic {
	t.Helper()
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(produceVersion)
	head := request.AppendTo(nil)
	head = head[:len(head)-topicCountBytes]
	if err := request.ReadFrom(append(head, encoded[produceHeadRoom:]...)); err != nil {
		t.Fatal(err)
	}
	return request.Topics
}

// A request has each topic once, whatever the order of the batches, and each
// batch says what its shipment says.
func TestEncodedRequest(t *testing.T) {
	records := recordsOf(order("e0", "a"), order("e1", "b"), order("e2", "c"), order("e3", "d"))
	// Commit times go back, by the clock of the server, and before 1970.
	for i, at := range []int64{1_700_000_000_123_456, 1_700_000_000_122_999, -5, 1_700_000_000_123_456} {
		records[i].position.CommitTime = at
	}
	first := identity{producerID: 1 << 40, epoch: 7}
	shipments := []shipment{
		{topic: "orders", id: 1, producer: first, sequence: 1<<31 - 1, records: records[:3], origin: []byte("here")},
		{topic: "invoices", id: 0, producer: identity{2, 0}, records: records[3:]},
		{topic: "orders", id: 0, producer: identity{3, 0}, sequence: 9, records: records[3:]},
	}
	encoded, err := newTestEncoder(t, sarama.CompressionNone).encode(shipments)
	if err != nil {
		t.Fatal(err)
	}
	batches := make(map[string]kmsg.RecordBatch)
	for _, topic := range topicsOf(t, encoded) {
		for _, p := range topic.Partitions {
			batches[fmt.Sprint(topic.Topic, p.Partition)] = checkedBatch(t, p.Records)
		}
	}
	if got, want := slices.Sorted(maps.Keys(batches)), []string{"invoices0", "orders0", "orders1"}; !slices.Equal(got, want) {
		t.Fatalf("the request has batches for %v, want %v", got, want)
	}
	batch := batches["orders1"]
	records0 := batch.Records
	batch.Records, batch.CRC, batch.Length = nil, 0, 0
	want := kmsg.RecordBatch{
		Magic: 2, LastOffsetDelta: 2, FirstTimestamp: 1_700_000_000_123, MaxTimestamp: 1_700_000_000_123,
		ProducerID: first.producerID, ProducerEpoch: first.epoch, FirstSequence: 1<<31 - 1, NumRecords: 3,
	}
	if fmt.Sprint(batch) != fmt.Sprint(want) {
		t.Errorf("batch is %+v, want %+v", batch, want)
	}
	for i, delta := range []int64{0, -1, -1_700_000_000_123} {
		var r kmsg.Record
		if err := r.ReadFrom(records0); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("e", i)
		if r.TimestampDelta64 != delta || int(r.OffsetDelta) != i || string(r.Key) != id || string(r.Value) != `{"id":"`+id+`"}` || len(r.Headers) != 7 {
			t.Errorf("record %d is %+v", i, r)
		}
		records0 = records0[varintBytes(int64(r.Length))+int(r.Length):]
	}
	if len(records0) != 0 {
		t.Errorf("%d bytes follow the records", len(records0))
	}
}

// checkedBatch reads a batch whose length and checksum are right.
func checkedBatch(t *testing.T, b []byte) kmsg.RecordBatch {
	t.Helper()
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	if int(batch.Length) != len(b)-12 {
		t.Errorf("a batch of %d bytes says that it has %d behind its length", len(b), batch.Length)
	}
	if got := crc32.Checksum(b[batchAttributesAt:], crc32.MakeTable(crc32.Castagnoli)); uint32(batch.CRC) != got {
		t.Errorf("the checksum of a batch is %08x, want %08x", uint32(batch.CRC), got)
	}
	return batch
}

func TestVarintBytes(t *testing.T) {
	for shift := range 64 {
		for _, n := range []int64{1 << shift, 1<<shift - 1, -1 << shift, -1<<shift - 1} {
			if got, want := varintBytes(n), len(binary.AppendVarint(nil, n)); got != want {
				t.Errorf("varintBytes(%d) = %d, want %d", n, got, want)
			}
		}
	}
}

// Only a produce request gets the topics, and only one.
func TestTopicsGoIntoOneProduceRequest(t *testing.T) {
	written := &writes{}
	conn := &topicsConn{Conn: written, topics: append(make([]byte, produceHeadRoom), "topics"...)}
	other, head := []byte("\x00\x00\x00\x08\x00\x11\x00\x01auth"), []byte("\x00\x00\x00\x0c\x00\x00\x00\x07head\x00\x00\x00\x00")
	for _, b := range [][]byte{other, head, head} {
		if n, err := conn.Write(b); n != len(b) || err != nil {
			t.Fatalf("Write of %d bytes = %d, %v", len(b), n, err)
		}
	}
	want := writes{bytes: []string{string(other), "\x00\x00\x00\x0e\x00\x00\x00\x07headtopics", string(head)}}
	if !slices.Equal(written.bytes, want.bytes) {
		t.Errorf("got %q, want %q", written.bytes, want.bytes)
	}
}

// writes is a connection that keeps what is written.
type writes struct {
	net.Conn
	bytes []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.bytes = append(w.bytes, string(b))
	return len(b), nil
}

func TestCompression(t *testing.T) {
	t.Parallel()
	for codec := range codecs() {
		fake := newFake(t, kfake.SeedTopics(2, testTopic))
		cfg := testConfig(fake.ListenAddrs())
		cfg.Compression = codec
		h := manyOrders(20, 100)
		if err := h.publish(testContext(t), t, newTestPublisher(t, cfg), &letters{}); err != nil {
			t.Fatalf("%s: %v", codec, err)
		}
		h.check(t, fake.ListenAddrs(), 2)
	}
}

// A request that no broker would read is refused before memory is taken for it.
func TestRequestsAreBounded(t *testing.T) {
	e := newTestEncoder(t, sarama.CompressionNone)
	_, err := e.encode([]shipment{{topic: "orders", records: recordsOf(order("e", "a")), bytes: int(sarama.MaxRequestSize)}})
	if verdict := classify(err); err == nil || cap(e.request) > 0 {
		t.Errorf("encode gave %v (%v) and took %d bytes", err, verdict, cap(e.request))
	}
}

// What a large row has needed is let go of.
func TestEncoderStaysSmall(t *testing.T) {
	e := newTestEncoder(t, sarama.CompressionLZ4)
	large := order("e", "a")
	large.payload = fmt.Sprintf("%0*d", 8<<20, time.Now().UnixNano())
	for _, payload := range []any{large.payload, "{}"} {
		large.payload = payload
		records := recordsOf(large)
		if _, err := e.encode([]shipment{{topic: "orders", records: records, bytes: records[0].wireBytes()}}); err != nil {
			t.Fatal(err)
		}
		e.trim()
		if held := cap(e.request) + cap(e.plain); held > 2*maxRequestBytes+2*maxBatchBytes {
			t.Errorf("the encoder holds %d bytes", held)
		}
	}
}

//go:build linux || darwin

package integration

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// saboteur stands between the relay and a broker and makes of a relay that
// works one that does not.
type saboteur struct {
	t testing.TB
	// what is done to each batch; nil is nothing.
	what atomic.Pointer[sabotage]
	done atomic.Int64 // batches
}

// sabotage alters the records of a batch of one partition, whose number must
// stay, and returns false if the broker shall not see the request, which then
// is acknowledged.
type sabotage func(topic string, partition int32, records []kmsg.Record) bool

// sabotaged puts a saboteur in front of a broker for one test.
func sabotaged(t testing.TB, b *harness.Broker) *saboteur {
	t.Helper()
	s := &saboteur{t: t}
	m := startMiddleman(t, b.DirectAddr(), func(client, broker net.Conn) {
		bothWays(client, broker, func() error { return s.forward(broker, client) }, copied(client, broker))
	})
	b.Proxy().SetTarget(m.addr)
	b.Proxy().Cut()
	t.Cleanup(func() { b.Proxy().SetTarget(b.DirectAddr()) })
	return s
}

// forward passes requests on, one at a time.
func (s *saboteur) forward(broker io.Writer, client io.ReadWriter) error {
	for {
		length := make([]byte, 4)
		if _, err := io.ReadFull(client, length); err != nil {
			return err
		}
		frame := make([]byte, binary.BigEndian.Uint32(length))
		if _, err := io.ReadFull(client, frame); err != nil {
			return err
		}
		to, frame := s.request(broker, client, frame)
		if _, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			return err
		}
	}
}

// request returns what is to be sent, and to whom: to the broker, or an answer
// to the client.
//
// The header of a produce request that is not flexible is key, version,
// correlation id and client id.
func (s *saboteur) request(broker, client io.Writer, frame []byte) (io.Writer, []byte) {
	what, key, version := s.what.Load(), binary.BigEndian.Uint16(frame), int16(binary.BigEndian.Uint16(frame[2:]))
	if what == nil || key != uint16(kmsg.Produce) {
		return broker, frame
	}
	body := 10 + int(binary.BigEndian.Uint16(frame[8:]))
	request := kmsg.ProduceRequest{Version: version}
	if err := request.ReadFrom(frame[body:]); err != nil || request.IsFlexible() {
		s.t.Errorf("a produce request of version %d cannot be read: %v", version, err)
		return broker, frame
	}
	if !s.alter(*what, &request) {
		return client, acknowledgement(&request, frame[4:8])
	}
	return broker, request.AppendTo(frame[:body:body])
}

// alter does the sabotage and returns false if the broker shall not see the
// request.
func (s *saboteur) alter(what sabotage, request *kmsg.ProduceRequest) bool {
	pass := true
	for _, topic := range request.Topics {
		for i, p := range topic.Partitions {
			var batch kmsg.RecordBatch
			if err := batch.ReadFrom(p.Records); err != nil || batch.Attributes&7 != 0 {
				s.t.Errorf("a batch with attributes %d cannot be read: %v", batch.Attributes, err)
				return true
			}
			records := recordsOf(&batch)
			pass = what(topic.Topic, p.Partition, records) && pass
			topic.Partitions[i].Records = encode(batch, records)
			s.done.Add(1)
		}
	}
	return pass
}

// acknowledgement is the answer to a request that was not made.
func acknowledgement(request *kmsg.ProduceRequest, correlation []byte) []byte {
	response := kmsg.NewProduceResponse()
	response.Version = request.Version
	for _, topic := range request.Topics {
		answered := kmsg.NewProduceResponseTopic()
		answered.Topic = topic.Topic
		for _, p := range topic.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition = p.Partition
			answered.Partitions = append(answered.Partitions, one)
		}
		response.Topics = append(response.Topics, answered)
	}
	return response.AppendTo(append([]byte(nil), correlation...))
}

// recordsOf reads the records of a batch that is not compressed.
func recordsOf(batch *kmsg.RecordBatch) []kmsg.Record {
	var records []kmsg.Record
	rest := batch.Records
	for range batch.NumRecords {
		length, n := binary.Varint(rest)
		var r kmsg.Record
		if err := r.ReadFrom(rest[:n+int(length)]); err != nil {
			panic(err) // the batch was made by the relay
		}
		records, rest = append(records, r), rest[n+int(length):]
	}
	return records
}

// encode makes a batch of other records in the place of its own. The checksum
// covers all behind it.
func encode(batch kmsg.RecordBatch, records []kmsg.Record) []byte {
	batch.Records = nil
	for _, r := range records {
		r.Length = 0 // a single byte
		body := r.AppendTo(nil)[1:]
		batch.Records = append(binary.AppendVarint(batch.Records, int64(len(body))), body...)
	}
	const lengthEnd, checksum, checksumEnd = 12, 17, 21
	encoded := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(encoded[lengthEnd-4:], uint32(len(encoded)-lengthEnd))
	sum := crc32.Checksum(encoded[checksumEnd:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(encoded[checksum:], sum)
	return encoded
}

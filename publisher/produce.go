package publisher

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

const (
	// produceVersion is the version of the produce request: the first that
	// carries zstd. Later ones bring nothing that is used here.
	produceVersion = 7
	produceKey     = 0
	// produceHeadRoom is more than sarama writes of a produce request without
	// topics: size, header with our client id, and settings.
	produceHeadRoom = 64
	// topicCountBytes is the last thing in it: the number of topics, 0.
	topicCountBytes = 4
)

// newProduceRequest returns the request that sarama knows of. It has no topics:
// see topicsConn.
func newProduceRequest() *sarama.ProduceRequest {
	return &sarama.ProduceRequest{
		Version:      produceVersion,
		RequiredAcks: sarama.WaitForAll,
		Timeout:      int32(produceTimeout / time.Millisecond),
	}
}

// encode makes the topics of a produce request (protocol guide, "Produce
// Request (Version: 7)", topic_data), behind room for its head. They are valid
// until the next call. Its size is that of the request.
func (e *encoder) encode(shipments []shipment) ([]byte, error) {
	size := produceHeadRoom
	for i := range shipments {
		size += shipments[i].bytes
	}
	if size > int(sarama.MaxRequestSize) {
		return nil, requestTooLarge(size)
	}
	// A topic may be there once only.
	slices.SortStableFunc(shipments, func(a, b shipment) int { return cmp.Compare(a.topic, b.topic) })
	b := slices.Grow(e.request[:0], size)[:produceHeadRoom]
	topicCountAt, partitionCountAt := len(b), 0
	b = binary.BigEndian.AppendUint32(b, 0)
	topics, partitions := uint32(0), uint32(0)
	for i := range shipments {
		sh := &shipments[i]
		if i == 0 || sh.topic != shipments[i-1].topic {
			topics, partitions = topics+1, 0
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(sh.topic))), sh.topic...)
			partitionCountAt = len(b)
			b = binary.BigEndian.AppendUint32(b, 0)
		}
		partitions++
		binary.BigEndian.PutUint32(b[partitionCountAt:], partitions)
		b = binary.BigEndian.AppendUint32(b, uint32(sh.id))
		sizeAt := len(b)
		b = binary.BigEndian.AppendUint32(b, 0)
		var err error
		if b, err = e.appendBatch(b, sh); err != nil {
			return nil, err
		}
		binary.BigEndian.PutUint32(b[sizeAt:], uint32(len(b)-sizeAt-4))
	}
	binary.BigEndian.PutUint32(b[topicCountAt:], topics)
	e.request = b
	if len(b) > int(sarama.MaxRequestSize) {
		return nil, requestTooLarge(len(b))
	}
	return b, nil
}

// trim lets go of memory that one large row has needed.
func (e *encoder) trim() {
	if cap(e.request) > 2*maxRequestBytes {
		e.request = nil
	}
	if cap(e.plain) > 2*maxBatchBytes {
		e.plain = nil
	}
	if cap(e.headers.made.block) > maxBatchBytes {
		e.headers.made = arena{}
	}
}

// requestTooLarge is the error of sarama for what no broker would read.
func requestTooLarge(size int) error {
	return sarama.PacketEncodingError{Info: fmt.Sprintf("invalid request size (%d)", size)}
}

// topicsConn is a connection on which produce requests get their topics. sarama
// makes objects of each record and copies it twice on its way to the socket;
// here it writes the head alone, and keeps what is its own: logins that have to
// be renewed, the broker's throttling, and which answer belongs to which
// request.
type topicsConn struct {
	net.Conn
	// topics are those of the next produce request, behind room for its head;
	// nil for none. They belong to the goroutine that sends.
	topics []byte
}

// Write writes what sarama sends. Each request is one call.
func (c *topicsConn) Write(b []byte) (int, error) {
	const size, keyEnd = 4, 6
	if c.topics == nil || len(b) < keyEnd || binary.BigEndian.Uint16(b[size:]) != produceKey {
		return c.Conn.Write(b)
	}
	head := b[:len(b)-topicCountBytes]
	request := c.topics[produceHeadRoom-len(head):]
	copy(request, head)
	binary.BigEndian.PutUint32(request, uint32(len(request)-size))
	c.topics = nil
	if _, err := c.Conn.Write(request); err != nil {
		return 0, err
	}
	return len(b), nil
}

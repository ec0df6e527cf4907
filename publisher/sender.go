package publisher

import (
	"fmt"
	"sync/atomic"

	"github.com/IBM/sarama"
)

// maxInFlight is how many requests a connection may have without an answer. A
// broker serves one at a time; the others are on their way meanwhile.
const maxInFlight = 3

// fullBytes is how much has to be lined up for a request that goes out behind one
// without an answer.
const fullBytes = maxRequestBytes / 2

// senderKey names a connection for data. Batches that are being retried travel
// on one of their own: a request is answered when its slowest partition is, and
// must not hold up the others.
type senderKey struct {
	broker int32
	retry  bool
}

// sender feeds one connection to one broker.
type sender struct {
	senderKey
	// ready are the partitions whose head waits for its turn; inFlight counts
	// the requests without an answer. Both belong to the loop.
	ready    []*partition
	inFlight int
	// requests has room for maxInFlight, so that the loop never waits.
	requests chan *request
	// conn is for abort, from any goroutine; only the sender's own sets it.
	conn atomic.Pointer[connection]
}

// request is a produce request: one batch of each of several partitions.
type request struct {
	shipments []shipment
	bytes     int
}

// shipment is one attempt to send the head of a partition. What the sender
// needs of the batch is copied here, since the loop may give the batch up.
type shipment struct {
	partition  *partition
	batch      *batch
	generation uint64

	topic    string
	id       int32
	origin   []byte
	producer identity
	sequence int32
	records  []record
	stamp    stamp
	bytes    int
}

// outcome is what became of a request.
type outcome struct {
	response *sarama.ProduceResponse
	err      error
	// unsent says that nothing of the request can have reached the broker.
	unsent bool
}

// sender returns the sender for a connection and starts it if need be.
func (s *session) sender(key senderKey) *sender {
	if sn := s.senders[key]; sn != nil {
		return sn
	}
	sn := &sender{senderKey: key, requests: make(chan *request, maxInFlight)}
	s.senders[key] = sn
	s.order = append(s.order, sn)
	s.help(func() { s.feed(sn) })
	return sn
}

// worthSending reports whether what is lined up had better be sent now than, with
// more to it, behind the answer to the request that is under way. The broker would
// not look at it before; and many partitions that send a record or two at a time
// cost the broker as much as if they sent full batches.
func (sn *sender) worthSending() bool {
	if sn.inFlight == 0 || sn.retry {
		return true
	}
	bytes := 0
	for _, p := range sn.ready {
		if p.leader != sn.broker || len(p.queue) == 0 {
			return true // it is to be lined up elsewhere
		}
		if bytes += p.queue[0].bytes; bytes >= fullBytes {
			return true
		}
	}
	return false
}

// abort breaks what waits on the connection.
func (sn *sender) abort() {
	if conn := sn.conn.Load(); conn != nil {
		conn.socket.abort()
	}
}

// feed sends the requests of sn until the session ends.
func (s *session) feed(sn *sender) {
	// The first connection is made before anything is to be sent. If it cannot be
	// had, that is said when it is needed.
	conn, err := s.cluster.dial(s.ctx, sn.broker, maxInFlight)
	if err == nil {
		sn.conn.Store(conn)
	}
	defer func() { closeConnection(conn) }()
	for {
		select {
		case <-s.ctx.Done():
			return
		case req := <-sn.requests:
			if conn != nil && conn.socket.aborted.Load() {
				closeConnection(conn)
				conn = nil
			}
			if conn == nil {
				var err error
				if conn, err = s.cluster.dial(s.ctx, sn.broker, maxInFlight); err != nil {
					s.report(func() { s.answered(sn, req, outcome{err: err, unsent: true}) })
					continue
				}
				sn.conn.Store(conn)
			}
			s.produce(sn, conn, req)
		}
	}
}

func closeConnection(c *connection) {
	if c != nil {
		c.close()
	}
}

// produce sends one request. The outcome is reported once, and not before the
// request has been written: nothing of the batches is in use then.
func (s *session) produce(sn *sender, conn *connection, req *request) {
	if !s.proof.fresh() {
		// The process may have been frozen since the request was made.
		s.proof.want()
		s.report(func() { s.answered(sn, req, outcome{err: errNotProved, unsent: true}) })
		return
	}
	e := s.encoders.Get().(*encoder)
	defer s.encoders.Put(e)
	topics, err := e.encode(req.shipments)
	s.metrics.leftOut(&e.headers.leftOut)
	if err != nil {
		s.report(func() { s.answered(sn, req, outcome{err: err, unsent: true}) })
		return
	}
	conn.socket.topics(topics)
	err = conn.broker.AsyncProduce(newProduceRequest(), func(response *sarama.ProduceResponse, err error) {
		if err != nil {
			conn.socket.abort()
		}
		s.report(func() { s.answered(sn, req, outcome{response: response, err: err}) })
	})
	conn.socket.topics(nil)
	e.trim()
	if err != nil {
		conn.socket.abort()
		s.report(func() { s.answered(sn, req, outcome{err: err}) })
	}
}

// errNotProved keeps a request back until it is known that the slot is ours.
var errNotProved = fmt.Errorf("the proof that the slot is held is too old")

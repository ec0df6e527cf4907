//go:build linux || darwin

package integration

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestStartTakesFewRoundTrips starts the relay where an earlier one has been,
// and counts what it asks for before it has the slot, and to acquire a
// partition: a server that is far away makes each question dear.
func TestStartTakesFewRoundTrips(t *testing.T) {
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
	o.insert(10)
	earlier := o.start()
	o.awaitDrained()
	earlier.stop()
	o.insert(10)

	database := startQuestions(t, o.pg.Addr())
	brokers := startRequests(t, k.Brokers()[0])
	o.start("--dsn", o.pg.DSNVia(database.addr, superuser, o.database))
	o.awaitDrained()

	connections, asked, walEnds := database.counted()
	// The guard's and the stream's, which the preflight began, and the recorder's.
	if connections != 3 {
		t.Errorf("%d connections to PostgreSQL, want 3", connections)
	}
	// The server, the tables with publication and slot, their membership, the
	// dead letters, which are prepared, the server's identity, and the slot.
	if asked > 8 {
		t.Errorf("%d round trips to PostgreSQL on open connections before START_REPLICATION, want 8 at most", asked)
	}
	if walEnds != 0 {
		t.Errorf("asked %d times where the WAL ends, which was known", walEnds)
	}
	made := brokers.counted()
	for _, key := range []kmsg.Key{kmsg.FindCoordinator, kmsg.InitProducerID, kmsg.ListOffsets, kmsg.AddPartitionsToTxn, kmsg.EndTxn} {
		if made[key] != 1 {
			t.Errorf("%d requests %s to acquire a partition, want 1", made[key], key.Name())
		}
	}
	o.verify()
}

// questions counts what goes to PostgreSQL.
type questions struct {
	*middleman

	mu          sync.Mutex // guards what follows
	connections int
	asked       int // round trips before START_REPLICATION
	began       bool
	walEnds     int // questions for the end of the WAL alone
}

func startQuestions(t testing.TB, server string) *questions {
	t.Helper()
	q := &questions{}
	q.middleman = startMiddleman(t, server, func(client, server net.Conn) {
		bothWays(client, server, func() error { return q.forward(server, client) }, copied(client, server))
	})
	return q
}

func (q *questions) counted() (connections, asked, walEnds int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.connections, q.asked, q.walEnds
}

func (q *questions) forward(server io.Writer, client io.Reader) error {
	message, err := readPGStartup(client)
	if err == nil {
		q.mu.Lock()
		q.connections++
		q.mu.Unlock()
	}
	for err == nil {
		if _, err := server.Write(message); err != nil {
			return err
		}
		var next pgMessage
		if next, err = readPGMessage(client); err == nil {
			q.see(next)
		}
		message = next
	}
	return err
}

// see counts a message after which the client waits: a simple query, or the
// Sync behind others.
func (q *questions) see(m pgMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case m.kind() == 'Q' && bytes.HasPrefix(m.body(), []byte("START_REPLICATION")):
		q.began = true
	case m.kind() == 'P' && bytes.Contains(m.body(), []byte("SELECT pg_current_wal_lsn()")):
		q.walEnds++
	case (m.kind() == 'Q' || m.kind() == 'S') && !q.began:
		q.asked++
	}
}

// requests counts what goes to a broker.
type requests struct {
	mu   sync.Mutex // guards made
	made map[kmsg.Key]int
}

// startRequests puts itself in front of a broker for one test.
func startRequests(t testing.TB, b *harness.Broker) *requests {
	t.Helper()
	r := &requests{made: make(map[kmsg.Key]int)}
	m := startMiddleman(t, b.DirectAddr(), func(client, broker net.Conn) {
		bothWays(client, broker, func() error { return r.forward(broker, client) }, copied(client, broker))
	})
	b.Proxy().SetTarget(m.addr)
	b.Proxy().Cut()
	t.Cleanup(func() { b.Proxy().SetTarget(b.DirectAddr()) })
	return r
}

func (r *requests) counted() map[kmsg.Key]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.made)
}

// forward passes requests on: each is a length, and begins with its key.
func (r *requests) forward(broker io.Writer, client io.Reader) error {
	for {
		head := make([]byte, 6)
		if _, err := io.ReadFull(client, head); err != nil {
			return err
		}
		r.mu.Lock()
		r.made[kmsg.Key(binary.BigEndian.Uint16(head[4:]))]++
		r.mu.Unlock()
		if _, err := broker.Write(head); err != nil {
			return err
		}
		if _, err := io.CopyN(broker, client, int64(binary.BigEndian.Uint32(head))-2); err != nil {
			return err
		}
	}
}

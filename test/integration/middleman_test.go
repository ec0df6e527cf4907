//go:build linux || darwin

package integration

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// middleman takes connections in a server's place. What goes through them is a
// test's own business.
type middleman struct {
	addr     string
	listener net.Listener
	all      sync.WaitGroup

	mu     sync.Mutex // guards what follows
	open   []net.Conn
	closed bool
}

// startMiddleman puts a middleman in front of a server for one test. serve has
// the two ends of each connection, which are closed when it returns, or when
// the test ends.
func startMiddleman(t testing.TB, server string, serve func(client, server net.Conn)) *middleman {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &middleman{addr: listener.Addr().String(), listener: listener}
	m.all.Go(func() { m.accept(server, serve) })
	t.Cleanup(m.close)
	return m
}

func (m *middleman) accept(server string, serve func(client, server net.Conn)) {
	for {
		client, err := m.listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", server)
		if err != nil {
			client.Close()
			continue
		}
		m.all.Go(func() {
			defer client.Close()
			defer upstream.Close()
			if m.opened(client, upstream) {
				serve(client, upstream)
			}
		})
	}
}

// opened notes connections that close has to end, and returns false if it is
// too late for that.
func (m *middleman) opened(conns ...net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = append(m.open, conns...)
	return !m.closed
}

func (m *middleman) close() {
	m.listener.Close()
	m.mu.Lock()
	m.closed = true
	for _, conn := range m.open {
		conn.Close()
	}
	m.mu.Unlock()
	m.all.Wait()
}

// bothWays carries what goes to a server and what comes back, each by a
// function of its own, until one of them returns. Its error is the end of the
// connection.
func bothWays(client, server net.Conn, toServer, toClient func() error) {
	var both sync.WaitGroup
	for _, way := range []func() error{toServer, toClient} {
		both.Go(func() {
			defer client.Close()
			defer server.Close()
			_ = way()
		})
	}
	both.Wait()
}

// copied is a direction in which everything goes through as it is.
func copied(to io.Writer, from io.Reader) func() error {
	return func() error {
		_, err := io.Copy(to, from)
		return err
	}
}

// pgMessage is a message of the PostgreSQL protocol as it is sent: its type,
// its length and its body.
type pgMessage []byte

func (m pgMessage) kind() byte   { return m[0] }
func (m pgMessage) body() []byte { return m[5:] }

// readPGMessage reads a message, one at a time.
func readPGMessage(r io.Reader) (pgMessage, error) {
	m := make(pgMessage, 5)
	if _, err := io.ReadFull(r, m); err != nil {
		return nil, err
	}
	m = append(m, make([]byte, binary.BigEndian.Uint32(m[1:])-4)...)
	_, err := io.ReadFull(r, m[5:])
	return m, err
}

// readPGStartup reads the first message of a client, which has no type.
func readPGStartup(r io.Reader) ([]byte, error) {
	m := make([]byte, 4)
	if _, err := io.ReadFull(r, m); err != nil {
		return nil, err
	}
	m = append(m, make([]byte, binary.BigEndian.Uint32(m)-4)...)
	_, err := io.ReadFull(r, m[4:])
	return m, err
}

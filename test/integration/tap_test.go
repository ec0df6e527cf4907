//go:build linux || darwin

package integration

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pglogrepl"
)

// tap stands between the relay and PostgreSQL and reads the status updates
// that go through.
type tap struct {
	addr     string
	listener net.Listener
	all      sync.WaitGroup

	mu      sync.Mutex // guards what follows
	open    []net.Conn
	updates [][]status // by connection
}

func startTap(t testing.TB, server string) *tap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tap := &tap{addr: listener.Addr().String(), listener: listener}
	tap.all.Go(func() { tap.serve(server) })
	t.Cleanup(tap.close)
	return tap
}

func (tap *tap) close() {
	tap.listener.Close()
	tap.mu.Lock()
	for _, conn := range tap.open {
		conn.Close()
	}
	tap.mu.Unlock()
	tap.all.Wait()
}

// sessions returns the status updates of each connection that had any.
func (tap *tap) sessions() [][]status {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	var sessions [][]status
	for _, updates := range tap.updates {
		if len(updates) > 0 {
			sessions = append(sessions, updates[:len(updates):len(updates)])
		}
	}
	return sessions
}

func (tap *tap) serve(server string) {
	for {
		client, err := tap.listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", server)
		if err != nil {
			client.Close()
			continue
		}
		tap.mu.Lock()
		tap.open = append(tap.open, client, upstream)
		tap.updates = append(tap.updates, nil)
		session := len(tap.updates) - 1
		tap.mu.Unlock()
		tap.all.Go(func() {
			defer client.Close()
			defer upstream.Close()
			_, _ = io.Copy(client, upstream) // its end is that of the connection
		})
		tap.all.Go(func() {
			defer client.Close()
			defer upstream.Close()
			_ = tap.forward(session, upstream, client)
		})
	}
}

// forward passes a client's messages on, one at a time. The first, and the
// only one of a connection that cancels, has no type.
func (tap *tap) forward(session int, upstream io.Writer, client io.Reader) error {
	for typed := 0; ; typed = 1 {
		header := make([]byte, typed+4)
		if _, err := io.ReadFull(client, header); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(header[typed:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return err
		}
		if typed == 1 && header[0] == 'd' {
			tap.see(session, body)
		}
		if _, err := upstream.Write(append(header, body...)); err != nil {
			return err
		}
	}
}

// see notes a status update: 'r', then three positions, the time and a flag.
func (tap *tap) see(session int, copyData []byte) {
	if len(copyData) != 34 || copyData[0] != 'r' {
		return
	}
	lsn := func(at int) pglogrepl.LSN { return pglogrepl.LSN(binary.BigEndian.Uint64(copyData[at:])) }
	tap.mu.Lock()
	defer tap.mu.Unlock()
	tap.updates[session] = append(tap.updates[session], status{lsn(1), lsn(9), lsn(17)})
}

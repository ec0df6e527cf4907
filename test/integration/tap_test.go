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
	*middleman

	mu      sync.Mutex // guards updates
	updates [][]status // by connection
}

func startTap(t testing.TB, server string) *tap {
	t.Helper()
	tap := &tap{}
	tap.middleman = startMiddleman(t, server, tap.serve)
	return tap
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

func (tap *tap) serve(client, server net.Conn) {
	tap.mu.Lock()
	tap.updates = append(tap.updates, nil)
	session := len(tap.updates) - 1
	tap.mu.Unlock()
	bothWays(client, server, func() error { return tap.forward(session, server, client) }, copied(client, server))
}

// forward passes a client's messages on, one at a time. A connection that
// cancels has the first alone.
func (tap *tap) forward(session int, server io.Writer, client io.Reader) error {
	message, err := readPGStartup(client)
	for err == nil {
		if _, err := server.Write(message); err != nil {
			return err
		}
		var next pgMessage
		if next, err = readPGMessage(client); err == nil && next.kind() == 'd' {
			tap.see(session, next.body())
		}
		message = next
	}
	return err
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

//go:build linux || darwin

package integration

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// liar stands between a relay and PostgreSQL and has it believe that it owns
// the slot when another has it: it hides that the relay's walsender has ended,
// and answers in the server's place who holds the slot. All else is true.
type liar struct {
	*middleman
	pace      time.Duration // from one message of the stream to the next
	walsender atomic.Uint32 // the latest that served the relay
	lies      atomic.Int64  // answers that were another than the server's

	mu      sync.Mutex // guards what follows
	changed sync.Cond
	held    bool    // what the walsender sends waits
	hiding  bool    // that the walsender has ended
	now     *stream // the latest
}

// stream is a replication connection through a liar, whose mutex guards it.
type stream struct {
	*liar
	queue  []pgMessage // what the relay has not had
	ended  bool        // the walsender
	hidden bool        // that it has ended
	left   bool        // the relay
}

func startLiar(t testing.TB, server string, pace time.Duration) *liar {
	t.Helper()
	l := &liar{pace: pace}
	l.changed.L = &l.mu
	l.middleman = startMiddleman(t, server, l.serve)
	return l
}

// hold has what the walsender sends wait until release.
func (l *liar) hold() { l.set(func() { l.held = true }) }

func (l *liar) release() { l.set(func() { l.held = false }) }

// hide has the relay believe that it owns the slot from now on, until reveal
// ends its stream.
func (l *liar) hide() { l.set(func() { l.hiding = true }) }

func (l *liar) reveal() { l.set(func() { l.hiding = false }) }

func (l *liar) set(how func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how()
	l.changed.Broadcast()
}

// waiting returns how many messages of the walsender the relay has not had.
func (l *liar) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		return 0
	}
	return len(l.now.queue)
}

func (l *liar) hides() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hiding
}

func (l *liar) serve(client, server net.Conn) {
	startup, err := readPGStartup(client)
	if err == nil {
		_, err = server.Write(startup)
	}
	switch {
	case err != nil:
	case bytes.Contains(startup, []byte("\x00replication\x00")):
		l.stream(client, server)
	default:
		q := questioning{liar: l, statements: make(map[string]bool)}
		bothWays(client, server,
			func() error { return eachPGMessage(client, server, q.ask) },
			func() error { return eachPGMessage(server, client, q.answer) })
	}
}

// eachPGMessage passes messages on when they have been seen, or altered.
func eachPGMessage(from io.Reader, to io.Writer, see func(pgMessage)) error {
	for {
		m, err := readPGMessage(from)
		if err != nil {
			return err
		}
		see(m)
		if _, err := to.Write(m); err != nil {
			return err
		}
	}
}

// questioning is an ordinary connection, on which the relay asks who holds the
// slot.
type questioning struct {
	*liar
	statements map[string]bool // those that ask; belongs to the direction of ask
	asked      atomic.Bool
}

// ask notes when the relay asks: by Parse with a name and a query, then by each
// Bind with a portal and that name.
func (q *questioning) ask(m pgMessage) {
	texts := strings.SplitN(string(m.body()), "\x00", 3)
	switch {
	case len(texts) < 3:
	case m.kind() == 'P':
		q.statements[texts[0]] = strings.Contains(texts[1], "active_pid")
	case m.kind() == 'B':
		q.asked.Store(q.statements[texts[1]])
	}
}

// answer alters the answer: a row of one number of eight bytes.
func (q *questioning) answer(m pgMessage) {
	if m.kind() != 'D' || len(m.body()) != 2+4+8 || !q.asked.Load() {
		return
	}
	pid := m.body()[6:]
	if said := uint64(q.walsender.Load()); binary.BigEndian.Uint64(pid) != said && q.hides() {
		binary.BigEndian.PutUint64(pid, said)
		q.lies.Add(1)
	}
}

// stream serves a replication connection.
func (l *liar) stream(client, server net.Conn) {
	s := &stream{liar: l}
	l.set(func() { l.now = s })
	var receiving sync.WaitGroup
	receiving.Go(func() { s.receive(server) })
	bothWays(client, server, func() error { return s.obey(client, server) }, func() error { return s.tell(client) })
	receiving.Wait()
}

// receive takes what the walsender sends, as far as the relay may know it.
func (s *stream) receive(server io.Reader) {
	for {
		m, err := readPGMessage(server)
		if err == nil && m.kind() == 'K' {
			s.walsender.Store(binary.BigEndian.Uint32(m.body()))
		}
		s.set(func() {
			switch {
			case err != nil:
				s.ended, s.hidden = true, s.hiding
			case m.kind() != 'E' || !s.hiding: // the walsender's last word
				s.queue = append(s.queue, m)
			}
		})
		if err != nil {
			return
		}
	}
}

// tell passes on to the relay what does not have to wait.
func (s *stream) tell(client io.Writer) error {
	pace := time.NewTicker(s.pace)
	defer pace.Stop()
	for {
		m := s.next()
		if m == nil {
			return io.EOF
		}
		if _, err := client.Write(m); err != nil {
			return err
		}
		<-pace.C
	}
}

// next waits for the next message. It returns nil when the stream ends.
func (s *stream) next() pgMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		over := s.ended && !s.hiding
		switch waits := len(s.queue) == 0 || s.held && s.queue[0].kind() == 'd'; {
		case s.left, over && (s.hidden || waits):
			return nil
		case !waits:
			m := s.queue[0]
			s.queue = s.queue[1:]
			return m
		}
		s.changed.Wait()
	}
}

// obey passes on what the relay says, until the relay ends the stream. When the
// walsender has ended, the relay hears what a walsender without news says.
func (s *stream) obey(client io.Reader, server io.Writer) error {
	defer s.set(func() { s.left = true })
	for {
		m, err := readPGMessage(client)
		if err != nil {
			return err
		}
		var ended bool
		s.set(func() {
			if ended = s.ended; ended && asksForReply(m) {
				s.queue = append(s.queue, idleKeepalive())
			}
		})
		if ended {
			continue
		}
		if _, err := server.Write(m); err != nil && !s.hides() {
			return err
		}
	}
}

// asksForReply reports whether a message is a status update that wants an
// answer.
func asksForReply(m pgMessage) bool {
	body := m.body()
	return m.kind() == 'd' && body[0] == 'r' && body[len(body)-1] != 0
}

// idleKeepalive is a keepalive that is no further than anything.
func idleKeepalive() pgMessage {
	const bytes = 1 + 8 + 8 + 1 // what it is, a position, a time, whether it asks
	m := binary.BigEndian.AppendUint32(pgMessage{'d'}, 4+bytes)
	return append(m, append([]byte{'k'}, make([]byte, bytes-1)...)...)
}

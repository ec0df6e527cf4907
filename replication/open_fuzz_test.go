package replication

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// FuzzOpenStream opens a stream from a server that answers what the input
// says, and runs it for as long as that lasts. Whatever the server does, the
// session ends by itself, and no status is false.
func FuzzOpenStream(f *testing.F) {
	for _, seed := range openSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		defer watchdog()()
		s := newAnswerScript(t, input)
		heard := make(chan []byte, 1)
		go func() { heard <- s.serve() }()
		s.session()
		s.hangUp()
		s.judge(<-heard)
	})
}

// The operations of an answerScript. Each is one piece of what the server
// says; a piece goes out whenever the client has said something, or waits.
const (
	answerStartup = iota
	answerIdentify
	answerSlot
	answerBusySlot
	answerStream
	answerTransaction
	answerMessage // its type, two bytes for its length, and its content
	answerBytes   // two bytes for their number
	answerDamaged // the piece before, with a byte changed: two bytes where
	answerAtOnce  // the next piece follows without being asked for
	answerOps
)

// answerScript is a server that says the pieces of an input, then hangs up.
type answerScript struct {
	t        *testing.T
	rest     []byte
	previous []byte
	server   *walsender // for its answers
	listener net.Listener
	accepted chan net.Conn
}

func newAnswerScript(t *testing.T, input []byte) *answerScript {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	server := &walsender{t: t, listener: listener, systemID: "7", slots: make(chan Slot, 1)}
	server.accepting.Do(func() {}) // the script does
	return &answerScript{t: t, rest: input, server: server, listener: listener, accepted: make(chan net.Conn, 1)}
}

// session is what the client does, until it has had enough.
func (s *answerScript) session() {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	srv := s.server.server()
	srv.Tables = []decoder.Table{outboxTable}
	cfg := s.server.config()
	cfg.StatusInterval, cfg.SilenceTimeout = 5*time.Millisecond, 200*time.Millisecond
	stream, err := OpenStream(ctx, cfg, srv, decoder.NewPool())
	if err != nil {
		return
	}
	defer stream.Close()
	var model sessionModel
	out := make(chan *decoder.Chunk)
	done := make(chan struct{})
	go func() {
		defer close(done)
		model.publish(out)
	}()
	confirmed := func() pglogrepl.LSN { return model.ack(1 << 20) }
	if err := stream.Run(ctx, out, confirmed); err == nil {
		published := make(chan struct{})
		close(published)
		stream.Finish(ctx, confirmed, published)
	}
	close(out)
	<-done
}

// serve follows the script on one connection and returns all that the client
// said.
func (s *answerScript) serve() []byte {
	conn, err := s.listener.Accept()
	if err != nil {
		return nil
	}
	defer conn.Close()
	s.accepted <- conn
	var heard bytes.Buffer
	buf := make([]byte, 4096)
	for len(s.rest) > 0 {
		conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		n, err := conn.Read(buf)
		heard.Write(buf[:n])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return heard.Bytes()
		}
		conn.Write(s.piece())
	}
	// What is under way is heard before the client finds us gone.
	if err := conn.(*net.TCPConn).CloseWrite(); err == nil {
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		io.Copy(&heard, conn)
	}
	return heard.Bytes()
}

// hangUp ends the server's side. The client's library closes connections on
// which it waits in vain only later, in the background.
func (s *answerScript) hangUp() {
	s.listener.Close()
	select {
	case conn := <-s.accepted:
		conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	default:
	}
}

func (s *answerScript) byte() byte {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

func (s *answerScript) uint16() int { return int(s.byte())<<8 | int(s.byte()) }

func (s *answerScript) bytes() []byte {
	n := min(s.uint16(), len(s.rest))
	b := s.rest[:n]
	s.rest = s.rest[n:]
	return b
}

// piece returns what the server says next.
func (s *answerScript) piece() []byte {
	var b []byte
	switch s.byte() % answerOps {
	case answerStartup:
		b = s.encode(&pgproto3.AuthenticationOk{}, &pgproto3.BackendKeyData{ProcessID: 4711, SecretKey: []byte{1, 2, 3, 4}},
			&pgproto3.ReadyForQuery{TxStatus: 'I'})
	case answerIdentify:
		b = s.query(func(b *pgproto3.Backend) { s.server.row(b, "7", "1", "0/3000", "shop") })
	case answerSlot:
		b = s.slot(0)
	case answerBusySlot:
		b = s.slot(99)
	case answerStream:
		b = s.encode(&pgproto3.CopyBothResponse{})
	case answerTransaction:
		b = append(relationMessage(), transaction(0x2000, 2, 10)...)
	case answerMessage:
		kind, body := s.byte(), s.bytes()
		b = append(appendLength([]byte{kind}, len(body)), body...)
	case answerBytes:
		b = s.bytes()
	case answerDamaged:
		if b = slices.Clone(s.previous); len(b) > 0 {
			b[s.uint16()%len(b)] = s.byte()
		}
	case answerAtOnce:
		if len(s.rest) > 0 {
			b = append(slices.Clone(s.previous), s.piece()...)
		}
	}
	s.previous = b
	return b
}

func (s *answerScript) slot(holder uint32) []byte {
	slot := goodSlot()
	slot.ActivePID = holder
	s.server.slots <- slot
	return s.query(s.server.slot)
}

func (s *answerScript) query(answer func(*pgproto3.Backend)) []byte {
	var b bytes.Buffer
	backend := pgproto3.NewBackend(&b, &b)
	answer(backend)
	if err := backend.Flush(); err != nil {
		s.t.Error(err)
	}
	return b.Bytes()
}

func (s *answerScript) encode(messages ...pgproto3.BackendMessage) []byte {
	return s.query(func(b *pgproto3.Backend) {
		for _, m := range messages {
			b.Send(m)
		}
	})
}

// judge looks at the status updates among what the client said.
func (s *answerScript) judge(heard []byte) {
	if len(heard) < 8 {
		return
	}
	r := bytes.NewReader(heard[min(int(binary.BigEndian.Uint32(heard)), len(heard)):])
	var flushed pglogrepl.LSN
	for {
		kind, body, err := readMessage(r)
		if err != nil {
			return
		}
		if kind != msgCopyData {
			continue
		}
		status := parseStatus(body)
		if status.flush == 0 || status.flush < flushed || status.flush > status.write {
			s.t.Fatalf("write %s, flush %s behind flush %s", status.write, status.flush, flushed)
		}
		flushed = status.flush
	}
}

// openSeeds are beginnings of sessions, good ones and others.
func openSeeds() [][]byte {
	open := []byte{answerStartup, answerIdentify, answerSlot, answerStream}
	with := func(ops ...byte) []byte { return append(slices.Clone(open), ops...) }
	return [][]byte{
		with(answerTransaction),
		with(answerTransaction, answerMessage, msgCopyDone, 0, 0),
		with(answerBytes, 0, 3, msgCopyData, 0, 0),
		with(answerDamaged, 0, 1, 200),
		{answerStartup, answerIdentify, answerBusySlot, answerSlot, answerStream, answerTransaction},
		{answerStartup, answerIdentify, answerSlot, answerDamaged, 0, 40, 9, answerStream},
		{answerStartup, answerIdentify, answerIdentify, answerStream},
		{answerStartup, answerSlot},
		{answerStartup, answerIdentify, answerSlot, answerMessage, msgErrorResponse, 0, 8, 'C', '5', '5', '0', '0', '6', 0, 0},
		{answerStartup, answerIdentify, answerSlot, answerMessage, msgReadyForQuery, 0, 1, 'I'},
		{answerStartup, answerIdentify, answerSlot, answerAtOnce, answerStream, answerAtOnce, answerTransaction},
		{answerStartup, answerDamaged, 0, 0, 'E'},
		{answerMessage, 'R', 0, 4, 0, 0, 0, 3, answerMessage, 'R', 0, 8, 0, 0, 0, 5, 1, 2, 3, 4},
		{answerMessage, 'R', 0, 4, 0, 0, 0, 10, answerMessage, 'N', 0, 1, 0},
		{answerBytes, 0, 5, 'R', 0xff, 0xff, 0xff, 0xff},
		{answerBytes, 0, 5, 'R', 0x3f, 0, 0, 0},
		{answerBytes, 0, 1, 'S'},
	}
}

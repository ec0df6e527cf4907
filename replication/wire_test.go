package replication

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// wire is the server's end of a stream that has started, without a server: a
// test writes what the walsender says and reads what it hears. Both ends run on
// the fake clock of a synctest bubble, which sockets would not.
type wire struct {
	t      *testing.T
	conn   net.Conn
	stream *Stream
	out    chan *decoder.Chunk
	heard  chan status // every status update
	done   chan struct{}
	asks   chan struct{} // requests for a reply; the first one waits
	mute   atomic.Bool   // does not answer CopyDone

	confirmed atomic.Uint64
	hold      atomic.Pointer[chan struct{}] // what position waits for, if set
	stop      context.CancelFunc
	ended     chan error
}

// slotPosition is where the slot of a wire stands.
const slotPosition = pglogrepl.LSN(0x1000)

var outboxTable = decoder.Table{OID: 16384, Schema: "public", Name: "outbox_events"}

// newWire starts a stream whose publisher can take up to chunks chunks.
func newWire(t *testing.T, cfg Config, srv Server, chunks int) *wire {
	return newWireHearing(t, cfg, srv, chunks, 100000)
}

// newWireHearing is newWire for a test that hears at most statuses of them
// before it takes them.
func newWireHearing(t *testing.T, cfg Config, srv Server, chunks, statuses int) *wire {
	ours, theirs := net.Pipe()
	srv.Tables = []decoder.Table{outboxTable}
	r := &reader{conn: ours, source: ours, buf: make([]byte, readBytes)}
	w := &wire{
		t:      t,
		conn:   theirs,
		stream: newStream(cfg, srv, r, slotPosition, decoder.NewPool()),
		out:    make(chan *decoder.Chunk, chunks),
		heard:  make(chan status, statuses),
		done:   make(chan struct{}),
		asks:   make(chan struct{}, 1),
		ended:  make(chan error, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go w.listen()
	go func() { w.ended <- w.stream.Run(ctx, w.out, w.position) }()
	return w
}

func (w *wire) position() pglogrepl.LSN {
	if hold := w.hold.Load(); hold != nil {
		<-*hold
	}
	return pglogrepl.LSN(w.confirmed.Load())
}

// answer has the server reply whenever it is asked to, as a living one does.
func (w *wire) answer() {
	go func() {
		for range w.asks {
			if _, err := w.conn.Write(keepaliveMessage(slotPosition, false)); err != nil {
				return
			}
		}
	}()
}

// listen reads until the stream hangs up.
func (w *wire) listen() {
	defer close(w.done)
	defer close(w.asks)
	for {
		kind, body, err := readMessage(w.conn)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
				w.t.Errorf("the stream sent: %v", err)
			}
			return
		}
		switch {
		case kind == msgCopyData && len(body) == statusBytes && body[0] == copyStatus:
			w.hear(parseStatus(body))
		case kind == msgCopyDone:
			if !w.mute.Load() {
				w.conn.Write(appendEmpty(nil, msgCopyDone))
			}
		case kind == msgTerminate:
		default:
			w.t.Errorf("the stream sent %q with % x", kind, body)
		}
	}
}

func (w *wire) hear(s status) {
	w.heard <- s
	if s.replyRequested {
		select {
		case w.asks <- struct{}{}:
		default:
		}
	}
}

func readMessage(r io.Reader) (kind byte, body []byte, err error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(header[1:])-4)
	_, err = io.ReadFull(r, body)
	return header[0], body, err
}

func parseStatus(b []byte) status {
	lsn := func(at int) pglogrepl.LSN { return pglogrepl.LSN(binary.BigEndian.Uint64(b[at:])) }
	return status{
		write: lsn(1), flush: lsn(9),
		at:             postgresEpoch.Add(time.Duration(binary.BigEndian.Uint64(b[25:])) * time.Microsecond),
		replyRequested: b[33] != 0,
	}
}

// say writes messages to the stream.
func (w *wire) say(messages ...[]byte) {
	if _, err := w.conn.Write(bytes.Join(messages, nil)); err != nil {
		w.t.Errorf("the stream does not read: %v", err)
	}
}

// end closes everything and returns how Run ended.
func (w *wire) end() error {
	w.stop()
	err := <-w.ended
	w.stream.Close()
	w.conn.Close()
	<-w.done
	return err
}

// statuses returns what has been heard so far.
func (w *wire) statuses() []status {
	var all []status
	for {
		select {
		case s := <-w.heard:
			all = append(all, s)
		default:
			return all
		}
	}
}

func copyData(body []byte) []byte {
	b := append([]byte{msgCopyData}, binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))...)
	return append(b, body...)
}

func keepaliveMessage(walEnd pglogrepl.LSN, ask bool) []byte {
	b := binary.BigEndian.AppendUint64([]byte{copyKeepalive}, uint64(walEnd))
	b = binary.BigEndian.AppendUint64(b, 0)
	if ask {
		return copyData(append(b, 1))
	}
	return copyData(append(b, 0))
}

func xlogMessage(lsn pglogrepl.LSN, data []byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{copyXLogData}, uint64(lsn))
	b = binary.BigEndian.AppendUint64(b, uint64(lsn))
	b = binary.BigEndian.AppendUint64(b, 0)
	return copyData(append(b, data...))
}

// relationMessage describes outboxTable with a text column for each field.
func relationMessage() []byte {
	columns := []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"}
	b := binary.BigEndian.AppendUint32([]byte{'R'}, outboxTable.OID)
	b = append(b, outboxTable.Schema+"\x00"+outboxTable.Name+"\x00d"...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(columns)))
	for _, c := range columns {
		b = append(b, "\x00"+c+"\x00"...)
		b = binary.BigEndian.AppendUint32(b, 25) // text
		b = binary.BigEndian.AppendUint32(b, 0xffffffff)
	}
	return xlogMessage(0, b)
}

// transaction is a committed transaction of n rows, each with a payload of
// size bytes, that ends at end.
func transaction(end pglogrepl.LSN, n, size int) []byte {
	commit := end - 8
	messages := xlogMessage(commit-1, beginOf(commit))
	row := binary.BigEndian.AppendUint32([]byte{'I'}, outboxTable.OID)
	row = append(row, 'N', 0, 5)
	for _, v := range []string{"1", "order", "7", "OrderCreated", string(bytes.Repeat([]byte{'x'}, size))} {
		row = binary.BigEndian.AppendUint32(append(row, 't'), uint32(len(v)))
		row = append(row, v...)
	}
	for range n {
		messages = append(messages, xlogMessage(commit-1, row)...)
	}
	return append(messages, xlogMessage(end, commitOf(commit, end))...)
}

func beginOf(commit pglogrepl.LSN) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'B'}, uint64(commit))
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, 0), 1)
}

func commitOf(commit, end pglogrepl.LSN) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, uint64(commit))
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(end)), 0)
}

// serverMessage encodes a message of the server.
func serverMessage(t *testing.T, m pgproto3.BackendMessage) []byte {
	t.Helper()
	b, err := m.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

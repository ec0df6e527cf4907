//go:build linux || darwin

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// reading is what a reader reports. Times are of the wall clock, in nanoseconds
// since 1970: the two ends are on one machine.
type reading struct {
	Rows      int64
	FirstRows int64 // that had come with the first
	FirstAt   int64
	EndAt     int64 // when the commit behind the last row had come
	Reads     int64
	Bytes     int64
}

// tally counts what a reader throws away.
type tally struct {
	reading
	want   int64
	behind uint64 // end of the last commit
}

// headBytes is how much of a message the tally needs: XLogData's header, and as
// much of a COMMIT as its end.
const headBytes = 1 + 3*8 + 1 + 1 + 2*8

// message takes the beginning of a CopyData's content into account. Keepalives
// are not answered: a run is shorter than wal_sender_timeout's half in which the
// server would ask, and what is written there is read at the end.
func (t *tally) message(head []byte) {
	const header = 1 + 3*8
	if len(head) <= header || head[0] != pglogrepl.XLogDataByteID {
		return
	}
	switch head[header] {
	case 'I':
		t.Rows++
	case 'C':
		if len(head) >= headBytes {
			t.behind = binary.BigEndian.Uint64(head[header+10:])
		}
		if t.Rows >= t.want && t.EndAt == 0 {
			t.EndAt = time.Now().UnixNano()
		}
	}
}

// read takes a read of n bytes into account, whose messages have been counted.
func (t *tally) read(n int) {
	t.Reads++
	t.Bytes += int64(n)
	if t.FirstAt == 0 && t.Rows > 0 {
		t.FirstAt, t.FirstRows = time.Now().UnixNano(), t.Rows
	}
}

func (t *tally) done() bool { return t.EndAt != 0 }

// readNaively reads one message after the other, as a user of pgconn would.
func readNaively(ctx context.Context, o orders) (reading, error) {
	conn, err := openStream(ctx, o, nil)
	if err != nil {
		return reading{}, err
	}
	defer conn.Close(ctx)
	t := tally{want: o.Rows}
	for !t.done() {
		m, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return reading{}, err
		}
		data, isData := m.(*pgproto3.CopyData)
		if !isData {
			return reading{}, fmt.Errorf("the stream was interrupted by %T", m)
		}
		t.message(data.Data)
		t.read(len(data.Data))
	}
	return t.reading, confirm(conn.Frontend(), t.behind)
}

// readPaced reads as fast as the server can send: it lets the socket's buffer
// fill before it reads again.
func readPaced(ctx context.Context, o orders) (reading, error) {
	var source io.Reader
	conn, err := openStream(ctx, o, &source)
	if err != nil {
		return reading{}, err
	}
	defer conn.Close(ctx)
	p := pacedReader{conn: conn.Conn(), source: source, buf: make([]byte, 1<<20)}
	t := tally{want: o.Rows}
	for !t.done() {
		if err := ctx.Err(); err != nil {
			return reading{}, err
		}
		n, err := p.read()
		if err != nil {
			return reading{}, err
		}
		p.split(n, t.message)
		t.read(n)
	}
	return t.reading, confirm(conn.Frontend(), t.behind)
}

const (
	// receiveBufferBytes is asked of the socket of a paced reader; Linux
	// grants at most net.core.rmem_max.
	receiveBufferBytes = 4 << 20
	// lowWaterBytes wake a paced reader, or that lowWaterWait has passed.
	lowWaterBytes = 128 << 10
	lowWaterWait  = 2 * time.Millisecond
)

// pacedReader splits large reads into messages. It keeps nothing of a message
// but its beginning.
type pacedReader struct {
	conn   net.Conn
	source io.Reader
	buf    []byte

	head []byte // of the message that is being read, as far as it has come
	rest int    // bytes of it that are still to come; 0 while head lacks its length
}

// read reads once, when enough has come or a little later.
func (p *pacedReader) read() (int, error) {
	for _, enough := range []int{lowWaterBytes, 1} {
		if err := setLowWater(p.conn, enough); err != nil {
			return 0, err
		}
		wait := lowWaterWait
		if enough == 1 {
			wait = runLimit
		}
		if err := p.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return 0, err
		}
		n, err := p.source.Read(p.buf)
		var timeout net.Error
		if n > 0 || enough == 1 || !errors.As(err, &timeout) || !timeout.Timeout() {
			return n, err
		}
	}
	panic("unreachable: the second round returns")
}

func setLowWater(conn net.Conn, n int) error {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n)
	})
	return errors.Join(err, refused)
}

// split calls message with the beginning of each message whose end is among the
// n bytes that were read.
func (p *pacedReader) split(n int, message func(head []byte)) {
	const header = 5 // type and length
	data := p.buf[:n]
	for len(data) > 0 {
		if len(p.head) < header {
			k := min(header-len(p.head), len(data))
			p.head, data = append(p.head, data[:k]...), data[k:]
			if len(p.head) < header {
				return
			}
			p.rest = int(binary.BigEndian.Uint32(p.head[1:])) - 4
		}
		k := min(p.rest, len(data))
		p.head = append(p.head, data[:min(k, header+headBytes-len(p.head))]...)
		p.rest, data = p.rest-k, data[k:]
		if p.rest == 0 {
			if p.head[0] == 'd' {
				message(p.head[header:])
			}
			p.head = p.head[:0]
		}
	}
}

// openStream connects to the server and has the slot stream. With source, the
// socket has a large buffer and pgconn reads nothing of the stream: the rest is
// to be read from there.
func openStream(ctx context.Context, o orders, source *io.Reader) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(o.DSN)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["replication"] = "database"
	if source != nil {
		d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBufferBytes) // as much as there is
			})
		}}
		config.DialFunc = d.DialContext
		config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			*source = r
			return pgproto3.NewFrontend(byteReader{r}, w)
		}
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	err = pglogrepl.StartReplication(ctx, conn, o.Slot, 0, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names 'outbox_cdc'"},
	})
	if err != nil {
		conn.Close(ctx)
	}
	return conn, err
}

// byteReader reads a byte at a time: what pgproto3 has not asked for stays in
// the socket.
type byteReader struct{ io.Reader }

func (r byteReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

// confirm tells the server that everything has been read.
func confirm(f *pgproto3.Frontend, end uint64) error {
	status := []byte{pglogrepl.StandbyStatusUpdateByteID}
	for range 3 { // write, flush, apply
		status = binary.BigEndian.AppendUint64(status, end)
	}
	status = binary.BigEndian.AppendUint64(status, 0) // the time of it
	f.Send(&pgproto3.CopyData{Data: append(status, 0)})
	return f.Flush()
}

package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// readBytes is the size of the buffer that the socket is read into. A message
// that is larger makes it grow for as long as it is there.
const readBytes = 512 << 10

// reader takes messages from the walsender's connection in large reads,
// without an allocation for each.
type reader struct {
	conn   net.Conn  // for deadlines
	source io.Reader // what to read: it may hold bytes that pgconn has taken
	socket net.Conn  // under TLS, for the low-water mark
	pacing pacing

	buf        []byte
	start, end int // the bytes read and not yet taken
	backlog    backlog
	lowWater   bool // whether the mark is set
	filled     bool // whether the last read left no room: there is more
}

func newReader(rc *replicationConn) *reader {
	r := &reader{conn: rc.Conn(), source: rc.source, socket: rc.dialer.conn, buf: make([]byte, readBytes)}
	switch {
	case rc.dialer.reached.network == "unix": // no window to close, a pause only costs
	case setLowWater(r.socket, 1):
		r.pacing = pacingLowWater
	case rc.dialer.granted >= usefulBufferBytes:
		r.pacing = pacingPause
	}
	return r
}

// next takes the next message if all of it has been read.
func (r *reader) next() (m message, ok bool, err error) {
	m, size, ok, err := splitMessage(r.buf[r.start:r.end])
	if ok {
		r.start += size
	}
	return m, ok, err
}

// fill reads once, until deadline at the latest, and returns how much came.
// Messages taken before are invalid then. A deadline that passes, or the end
// of ctx while interrupt is in force, is os.ErrDeadlineExceeded.
func (r *reader) fill(ctx context.Context, deadline time.Time) (int, error) {
	if err := r.room(); err != nil {
		return 0, err
	}
	n, err := r.read(ctx, deadline)
	r.end += n
	r.filled = r.end == len(r.buf)
	if n > 0 {
		r.backlog.note(n, time.Now())
		return n, nil
	}
	r.backlog.end()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return 0, err
}

// room makes space for the next read: for the rest of the message that is
// being read, but never for more than twice what has come of it, since its
// length is only a claim.
func (r *reader) room() error {
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	switch _, size, _, err := splitMessage(r.buf[:r.end]); {
	case err != nil:
		return err
	case r.end == len(r.buf):
		r.buf = append(make([]byte, 0, min(size, 2*len(r.buf))), r.buf...)
		r.buf = r.buf[:cap(r.buf)]
	case len(r.buf) > readBytes && size <= readBytes && r.end <= readBytes:
		r.buf = append(make([]byte, 0, readBytes), r.buf[:r.end]...)[:readBytes]
	}
	return nil
}

// read reads once. While there is a backlog it lets the socket buffer fill
// before.
func (r *reader) read(ctx context.Context, deadline time.Time) (int, error) {
	if r.backlog.on && !r.filled {
		switch r.pacing {
		case pacingPause:
			time.Sleep(pause)
		case pacingLowWater:
			if n, err := r.readLowWater(ctx, deadline); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				return n, err
			}
			// Less than that has come, and is read now: how fast it comes says
			// whether the backlog goes on.
		}
	}
	if r.lowWater {
		r.mark(1)
	}
	return r.readUntil(ctx, deadline)
}

// readLowWater waits a little for a good amount.
func (r *reader) readLowWater(ctx context.Context, deadline time.Time) (int, error) {
	if !r.lowWater {
		r.mark(lowWaterBytes)
	}
	if soon := time.Now().Add(lowWaterWait); soon.Before(deadline) {
		deadline = soon
	}
	return r.readUntil(ctx, deadline)
}

func (r *reader) mark(n int) {
	setLowWater(r.socket, n)
	r.lowWater = n > 1
}

func (r *reader) readUntil(ctx context.Context, deadline time.Time) (int, error) {
	if err := r.conn.SetReadDeadline(deadline); err != nil {
		return 0, fmt.Errorf("set read deadline: %w", err)
	}
	// The end of ctx moves the deadline to the past. Where it came before the
	// line above, it has been undone.
	if ctx.Err() != nil {
		return 0, os.ErrDeadlineExceeded
	}
	return r.source.Read(r.buf[r.end:])
}

// interrupt makes the end of ctx end a read. Only the read deadline is moved:
// a status update may be in the middle of being written, and it must not be
// cut short. The function returned undoes it, and waits until it is undone.
func (r *reader) interrupt(ctx context.Context) (release func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		r.conn.SetReadDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

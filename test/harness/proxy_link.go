//go:build linux || darwin

package harness

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection through a proxy.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	server *net.TCPConn
	torn   atomic.Bool // bytes of it were swallowed
	ended  atomic.Bool // the server's end has reached the client
	// holding is how many directions have bytes that are held back.
	holding atomic.Int32
	once    sync.Once
	done    chan struct{} // closed by reset

	// flows hold for this link instead of the lanes' where they are not pass.
	// The proxy's mu guards them.
	flows map[Direction]flow
}

// chunkBytes and queuedChunks bound what the proxy itself holds of a direction
// of a link, so that a stalled connection soon pushes back.
const (
	chunkBytes   = 16 << 10
	queuedChunks = 16
)

// chunk is what was read at a time; without bytes it is the end.
type chunk struct {
	bytes []byte
	read  time.Time
}

// run forwards both ways until both have ended or the link is reset.
func (l *link) run() {
	var ways sync.WaitGroup
	ways.Go(func() { l.forward(ToServer, l.client, l.server) })
	ways.Go(func() { l.forward(ToClient, l.server, l.client) })
	ways.Wait()
	l.client.Close()
	l.server.Close()
}

// reset ends both connections the hard way.
func (l *link) reset() {
	l.once.Do(func() {
		close(l.done)
		abort(l.client)
		abort(l.server)
	})
}

// abort closes a connection with a reset instead of an orderly end.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // the close counts
	conn.Close()
}

// forward carries the bytes of one direction.
func (l *link) forward(d Direction, from io.Reader, to *net.TCPConn) {
	queue := make(chan chunk, queuedChunks)
	var reader sync.WaitGroup
	reader.Go(func() { l.read(from, queue) })
	defer reader.Wait()
	for c := range queue {
		if !l.deliver(d, c, to) {
			l.reset()
			return
		}
		if c.bytes == nil && d == ToClient {
			l.ended.Store(true)
		}
	}
}

// read fills the queue until the end of the connection. A reset travels at
// once, unlike an end.
func (l *link) read(from io.Reader, queue chan<- chunk) {
	defer close(queue)
	for {
		buf := make([]byte, chunkBytes)
		n, err := from.Read(buf)
		if n > 0 && !l.enqueue(queue, chunk{buf[:n], time.Now()}) {
			return
		}
		if errors.Is(err, io.EOF) {
			l.enqueue(queue, chunk{nil, time.Now()})
			return
		}
		if err != nil {
			l.reset()
			return
		}
	}
}

func (l *link) enqueue(queue chan<- chunk, c chunk) bool {
	select {
	case queue <- c:
		return true
	case <-l.done:
		return false
	}
}

// deliver does with a chunk what the lane says. It returns false when the link
// is broken.
func (l *link) deliver(d Direction, c chunk, to *net.TCPConn) bool {
	held := false
	defer func() { l.holdBack(&held, false) }()
	for {
		lane, changed := l.proxy.lane(l, d)
		l.holdBack(&held, lane.flow == hold) // before anybody sees the bytes
		var wake <-chan time.Time            // never, while bytes are held
		if lane.flow != hold {
			wait := time.Until(c.read.Add(lane.delay))
			if lane.rate > 0 {
				wait = max(wait, 0) + time.Duration(len(c.bytes))*time.Second/time.Duration(lane.rate)
			}
			if wait <= 0 {
				return l.write(lane, c, to)
			}
			wake = time.After(wait)
		}
		select {
		case <-wake:
			return l.write(lane, c, to)
		case <-changed:
		case <-l.done:
			return false
		}
	}
}

// holdBack counts a direction whose bytes begin, or no longer are, held back.
func (l *link) holdBack(held *bool, now bool) {
	switch {
	case now && !*held:
		l.holding.Add(1)
	case !now && *held:
		l.holding.Add(-1)
	}
	*held = now
}

// write passes a chunk on, or drops it.
func (l *link) write(lane lane, c chunk, to *net.TCPConn) bool {
	switch {
	case lane.flow == swallow:
		l.torn.Store(true)
		return true
	case c.bytes == nil:
		return to.CloseWrite() == nil
	default:
		_, err := to.Write(c.bytes)
		return err == nil
	}
}

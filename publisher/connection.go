package publisher

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

const (
	// produceTimeout is how long a broker may wait for the in-sync replicas.
	// It is below readTimeout, so that the broker's own answer comes first.
	produceTimeout = 4 * time.Second
	// readTimeout is how long an answer is waited for, and the length of the
	// stall that a frozen broker causes.
	readTimeout = 5 * time.Second
	// openTimeout bounds the way to a usable connection: name look-up, TCP,
	// TLS, version negotiation and login.
	openTimeout = 5 * time.Second
	// idleTimeout is when a pooled connection is no longer trusted. Brokers and
	// middleboxes close idle ones, some without a word.
	idleTimeout = 30 * time.Second
)

const clientID = "outbox-cdc"

// newSaramaConfig returns what all connections have in common. Only the wire
// layer of sarama is used, so most of its settings do not matter.
func newSaramaConfig(version sarama.KafkaVersion, login SASL) *sarama.Config {
	conf := sarama.NewConfig()
	conf.ClientID = clientID
	conf.Version = version
	conf.Net.DialTimeout = openTimeout
	conf.Net.ReadTimeout = readTimeout
	conf.Net.WriteTimeout = readTimeout
	conf.Net.MaxOpenRequests = 1
	login.configure(conf)
	return conf
}

// socket dials for one sarama.Broker and keeps the connection at hand, because
// sarama's Close waits for the lock that a call in progress holds.
type socket struct {
	// opening bounds the dialing; sarama's dialer interface has no context.
	opening context.Context
	tls     TLS
	conn    atomic.Pointer[net.Conn]
	aborted atomic.Bool
}

// Dial opens the connection, TLS included. TLS is done here so that a bad
// certificate is an error of the connection and not of the first request, and
// so that the files are read for each connection.
func (s *socket) Dial(network, addr string) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	raw, err := dialer.DialContext(s.opening, network, addr)
	if err != nil {
		return nil, err
	}
	s.conn.Store(&raw)
	if s.aborted.Load() {
		s.abort()
	}
	if !s.tls.Enabled {
		return raw, nil
	}
	secured, err := s.handshake(raw, addr)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return secured, nil
}

func (s *socket) handshake(raw net.Conn, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	conf, err := s.tls.load(host)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(raw, conf)
	if err := secured.HandshakeContext(s.opening); err != nil {
		return nil, &tlsError{err}
	}
	return secured, nil
}

// abort breaks whatever waits on the connection.
func (s *socket) abort() {
	s.aborted.Store(true)
	if conn := s.conn.Load(); conn != nil {
		(*conn).Close()
	}
}

// tlsError is a failed TLS handshake.
type tlsError struct{ err error }

func (e *tlsError) Error() string {
	var record tls.RecordHeaderError
	if errors.As(e.err, &record) {
		return "the listener does not speak TLS; use its TLS port, or run without --tls: " + e.err.Error()
	}
	return "tls handshake: " + e.err.Error()
}

func (e *tlsError) Unwrap() error { return e.err }

// silentListenerError is a connection that the broker closed, or left without
// an answer, before the first request: the usual sign of a listener that speaks
// another security protocol.
type silentListenerError struct {
	tls bool
	err error
}

func (e *silentListenerError) Error() string {
	if e.tls {
		return "closed before the first answer; check the login (--sasl-mechanism) that this listener expects: " + e.err.Error()
	}
	return "closed before the first answer; if the listener expects TLS, run with --tls, if it expects a login, with --sasl-mechanism: " + e.err.Error()
}

func (e *silentListenerError) Unwrap() error { return e.err }

// connection is an open connection for synchronous calls, one at a time.
type connection struct {
	broker *sarama.Broker
	socket *socket
	// usedAt is when the last call ended.
	usedAt time.Time
}

// open connects to addr, with room for maxOpenRequests unanswered requests. It
// returns when the connection can be used.
func (p *pool) open(ctx context.Context, addr string, maxOpenRequests int) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	c := &connection{broker: sarama.NewBroker(addr), socket: &socket{opening: ctx, tls: p.tls}}
	conf := *p.conf
	conf.Net.MaxOpenRequests = maxOpenRequests
	conf.Net.Proxy.Enable = true
	conf.Net.Proxy.Dialer = c.socket
	stop := context.AfterFunc(ctx, c.socket.abort)
	defer stop()
	if err := c.broker.Open(&conf); err != nil {
		return nil, fmt.Errorf("broker %s: %w", addr, err)
	}
	connected, err := c.broker.Connected()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && !connected:
		err = io.EOF
	}
	if err == nil {
		return c, nil
	}
	c.close()
	if c.socket.conn.Load() != nil && (isBroken(err) || errors.Is(err, context.DeadlineExceeded)) {
		err = &silentListenerError{tls: p.tls.Enabled, err: err}
	}
	return nil, fmt.Errorf("broker %s: %w", addr, err)
}

func (c *connection) close() {
	c.socket.abort()
	// Nothing is lost by an error here: the socket is closed already.
	_ = c.broker.Close()
}

// do runs one call and gives it up when ctx ends.
func (c *connection) do(ctx context.Context, call func(*sarama.Broker) error) error {
	stop := context.AfterFunc(ctx, c.socket.abort)
	err := call(c.broker)
	if !stop() && err != nil {
		return context.Cause(ctx)
	}
	return err
}

// pool holds the idle connections for synchronous calls, apart from those that
// carry data: sarama's synchronous calls hold the broker's lock until the answer
// and close the connection when they fail.
type pool struct {
	conf *sarama.Config
	tls  TLS

	mu sync.Mutex // guards the fields below
	// idle connections by address, the one used last at the end.
	idle   map[string][]*connection
	closed bool
}

func newPool(conf *sarama.Config, security TLS) *pool {
	return &pool{conf: conf, tls: security, idle: make(map[string][]*connection)}
}

// call runs one synchronous call on a connection to addr. It ends with ctx, and
// an answer that does not come within readTimeout is an error. A call that
// fails costs its own connection and no other. One that fails on a connection
// which was idle, and which the broker may have closed since, is made again on a
// fresh one: all our calls may be repeated.
func (p *pool) call(ctx context.Context, addr string, call func(*sarama.Broker) error) error {
	if conn := p.take(addr); conn != nil {
		err := p.run(ctx, conn, addr, call)
		if !isBroken(err) || isTimeout(err) || ctx.Err() != nil {
			return err
		}
		p.forget(addr)
	}
	conn, err := p.open(ctx, addr, 1)
	if err != nil {
		return err
	}
	return p.run(ctx, conn, addr, call)
}

func (p *pool) run(ctx context.Context, conn *connection, addr string, call func(*sarama.Broker) error) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout+time.Second)
	defer cancel()
	err := conn.do(ctx, call)
	var answer sarama.KError
	if err == nil || errors.As(err, &answer) {
		p.give(addr, conn)
		return err
	}
	conn.close()
	return fmt.Errorf("broker %s: %w", addr, err)
}

// take returns the idle connection to addr that was used last, or nil.
func (p *pool) take(addr string) *connection {
	stale := p.prune(addr)
	defer closeAll(stale)
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[addr]
	if len(idle) == 0 {
		return nil
	}
	conn := idle[len(idle)-1]
	p.idle[addr] = idle[:len(idle)-1]
	return conn
}

// prune takes out the connections to addr that have been idle for too long.
func (p *pool) prune(addr string) (stale []*connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[addr]
	n := 0
	for n < len(idle) && time.Since(idle[n].usedAt) > idleTimeout {
		n++
	}
	p.idle[addr] = idle[n:]
	return idle[:n:n]
}

// give puts a connection back. Those at the front have been idle for longest.
func (p *pool) give(addr string, conn *connection) {
	conn.usedAt = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || conn.socket.aborted.Load() {
		conn.close()
		return
	}
	p.idle[addr] = append(p.idle[addr], conn)
}

// forget closes the idle connections to addr, after the broker there failed.
func (p *pool) forget(addr string) {
	p.mu.Lock()
	idle := p.idle[addr]
	delete(p.idle, addr)
	p.mu.Unlock()
	closeAll(idle)
}

// close closes the idle connections; those in use follow when their call ends.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, connections := range idle {
		closeAll(connections)
	}
}

func closeAll(connections []*connection) {
	for _, conn := range connections {
		conn.close()
	}
}

// isTimeout reports whether err is an answer that did not come in time.
func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// isBroken reports whether err is a connection that failed, and not an answer.
func isBroken(err error) bool {
	var network net.Error
	var errno syscall.Errno
	for _, target := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, sarama.ErrNotConnected, sarama.ErrAlreadyConnected} {
		if errors.Is(err, target) {
			return true
		}
	}
	return errors.As(err, &network) || errors.As(err, &errno)
}

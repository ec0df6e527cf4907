package publisher

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
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
	// requests is what sarama writes to. It belongs to whoever sends.
	requests *topicsConn
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
	s.requests = &topicsConn{Conn: raw}
	if !s.tls.Enabled {
		return s.requests, nil
	}
	secured, err := s.handshake(raw, addr)
	if err != nil {
		raw.Close()
		return nil, err
	}
	s.requests.Conn = secured
	return s.requests, nil
}

// topics sets what the next produce request carries. It is called between
// requests, by whoever sends them.
func (s *socket) topics(topics []byte) { s.requests.topics = topics }

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

// refusedLoginError makes the code of a refused login findable: sarama wraps it,
// with the broker's text, in a way that errors.As does not look through.
type refusedLoginError struct{ err error }

func (e *refusedLoginError) Error() string { return e.err.Error() }
func (e *refusedLoginError) Unwrap() error { return sarama.ErrSASLAuthenticationFailed }

// closedEarlyError is a connection that the broker closed before it gave an
// answer to a request: the usual sign of a listener that speaks another security
// protocol.
type closedEarlyError struct {
	tls, login bool
	err        error
}

func (e *closedEarlyError) Error() string {
	hint := "if that listener expects TLS, run with --tls, if it expects a login, with --sasl-mechanism"
	switch {
	case e.tls && e.login:
		hint = "check that its listener is of the kind SASL_SSL"
	case e.tls:
		hint = "if its listener expects a login, run with --sasl-mechanism, if it does not speak TLS, without --tls"
	case e.login:
		hint = "if its listener expects TLS, run with --tls"
	}
	return "the broker closed the connection without an answer; " + hint + ": " + e.err.Error()
}

func (e *closedEarlyError) Unwrap() error { return e.err }

// connection is an open connection for synchronous calls, one at a time.
type connection struct {
	broker *sarama.Broker
	socket *socket
	// usedAt is when the last call ended, zero before the first answer.
	usedAt time.Time
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

package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// idleTimeout is when a pooled connection is no longer trusted. Brokers and
// middleboxes close idle ones, some without a word.
const idleTimeout = 30 * time.Second

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
	if errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
		err = &refusedLoginError{err}
	}
	if c.socket.conn.Load() != nil {
		err = p.explain(err)
	}
	return nil, fmt.Errorf("broker %s: %w", addr, err)
}

// explain adds to an error of a connection that has never had an answer what it
// probably means.
func (p *pool) explain(err error) error {
	if !isBroken(err) || isTimeout(err) || isRefusedTLS(err) {
		return err
	}
	return &closedEarlyError{tls: p.tls.Enabled, login: p.conf.Net.SASL.Enable, err: err}
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
	if conn.usedAt.IsZero() {
		err = p.explain(err)
	}
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
	if n > 0 {
		p.idle[addr] = idle[n:]
	}
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

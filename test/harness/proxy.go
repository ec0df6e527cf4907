//go:build linux || darwin

package harness

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Direction is a way through a Proxy.
type Direction int

// The ways through a proxy.
const (
	ToServer Direction = 1 << iota
	ToClient
	BothWays = ToServer | ToClient
)

// Proxy forwards TCP connections to a server and does to them what networks
// do. Its methods may be called from any goroutine.
type Proxy struct {
	addr   string
	closed chan struct{}
	all    sync.WaitGroup // every goroutine of the proxy

	mu       sync.Mutex // guards what follows
	target   string
	listener net.Listener // nil while connections are refused
	links    map[*link]bool
	lanes    map[Direction]lane
	changed  chan struct{} // closed when lanes change
}

// lane is how bytes of one direction are treated.
type lane struct {
	flow  flow
	rate  int // bytes a second; 0 is no limit
	delay time.Duration
}

// flow is what happens to bytes.
type flow int

const (
	pass flow = iota
	hold
	swallow
)

// StartProxy starts a proxy in front of a server's address. The caller closes
// it.
func StartProxy(target string) (*Proxy, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		addr: localAddr(port), target: target, closed: make(chan struct{}),
		links: make(map[*link]bool), lanes: make(map[Direction]lane), changed: make(chan struct{}),
	}
	return p, p.Accept()
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// SetTarget has new connections go to another server.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Connections is the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Ended is the number of open connections that the server has closed, and the
// client has not yet.
func (p *Proxy) Ended() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if l.ended.Load() {
			n++
		}
	}
	return n
}

// Holding is the number of connections of which bytes are held back, by Stall
// or StallOpen.
func (p *Proxy) Holding() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if l.holding.Load() > 0 {
			n++
		}
	}
	return n
}

// Stall holds back all bytes of a direction, and the ends of connections, until
// Resume: a network that is down for a while. New connections are accepted.
func (p *Proxy) Stall(d Direction) { p.change(d, func(l *lane) { l.flow = hold }) }

// Swallow drops all bytes of a direction, and the ends of connections, without
// a sign to either side: a firewall that has forgotten the connection. New
// connections are accepted.
func (p *Proxy) Swallow(d Direction) { p.change(d, func(l *lane) { l.flow = swallow }) }

// StallOpen is Stall for the connections that are open now; new ones are
// forwarded.
func (p *Proxy) StallOpen(d Direction) { p.changeOpen(d, hold) }

// SwallowOpen is Swallow for the connections that are open now; new ones are
// forwarded.
func (p *Proxy) SwallowOpen(d Direction) { p.changeOpen(d, swallow) }

// Throttle limits a direction of each connection to so many bytes a second; 0
// lifts the limit.
func (p *Proxy) Throttle(d Direction, bytesPerSecond int) {
	p.change(d, func(l *lane) { l.rate = bytesPerSecond })
}

// Delay has each byte of a direction take longer.
func (p *Proxy) Delay(d Direction, latency time.Duration) {
	p.change(d, func(l *lane) { l.delay = latency })
}

// Resume forwards everything again, at once and at full speed. Connections that
// have lost bytes to Swallow are cut.
func (p *Proxy) Resume() {
	p.changeOpen(BothWays, pass)
	p.change(BothWays, func(l *lane) { *l = lane{} })
	p.cut(func(l *link) bool { return l.torn.Load() })
}

// Cut resets all open connections. New ones are accepted.
func (p *Proxy) Cut() { p.cut(func(*link) bool { return true }) }

// Refuse resets all open connections and refuses new ones until Accept.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		listener.Close()
	}
	p.Cut()
}

// Accept accepts connections again.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	p.listener = listener
	p.all.Go(func() { p.serve(listener) })
	return nil
}

// Close resets all connections and waits until the proxy is gone.
func (p *Proxy) Close() error {
	p.Refuse()
	p.mu.Lock()
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	p.mu.Unlock()
	p.all.Wait()
	return nil
}

// change alters lanes and wakes whoever waits in one.
func (p *Proxy) change(d Direction, how func(*lane)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, way := range d.ways() {
		l := p.lanes[way]
		how(&l)
		p.lanes[way] = l
	}
	p.wake()
}

// changeOpen has the open connections, and no others, treat bytes in another
// way than their lanes say; pass leaves it to the lanes again.
func (p *Proxy) changeOpen(d Direction, f flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		for _, way := range d.ways() {
			l.flows[way] = f
		}
	}
	p.wake()
}

// wake wakes whoever waits in a lane. Its caller holds mu.
func (p *Proxy) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// ways are the single directions in d.
func (d Direction) ways() []Direction {
	var ways []Direction
	for _, way := range []Direction{ToServer, ToClient} {
		if d&way != 0 {
			ways = append(ways, way)
		}
	}
	return ways
}

// lane returns how a link treats bytes of a direction, and a channel that is
// closed when that may have changed.
func (p *Proxy) lane(of *link, d Direction) (lane, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[d]
	if f := of.flows[d]; f != pass {
		l.flow = f
	}
	return l, p.changed
}

// cut resets the connections that which selects.
func (p *Proxy) cut(which func(*link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if which(l) {
			l.reset()
		}
	}
}

// serve accepts connections until the listener is closed.
func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.connect(listener, client.(*net.TCPConn)) })
	}
}

// connect joins a client's connection with one to the server and stays until
// they have ended.
func (p *Proxy) connect(listener net.Listener, client *net.TCPConn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		abort(client)
		return
	}
	l := &link{proxy: p, client: client, server: server.(*net.TCPConn), done: make(chan struct{}), flows: make(map[Direction]flow)}
	p.mu.Lock()
	p.links[l] = true
	stale := p.listener != listener // refused since it was accepted
	p.mu.Unlock()
	if stale {
		l.reset()
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

//go:build linux || darwin

package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// echo starts a server that sends everything back.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // ends with the connection
			}()
		}
	}()
	return l.Addr().String()
}

// dialEcho returns a proxy in front of an echo server, and a connection.
func dialEcho(t *testing.T) (*Proxy, net.Conn) {
	t.Helper()
	p := NewProxy(t, echo(t))
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := roundTrip(conn, "hello", time.Second); err != nil {
		t.Fatal(err)
	}
	return p, conn
}

// roundTrip sends s and expects it back.
func roundTrip(conn net.Conn, s string, within time.Duration) error {
	if _, err := io.WriteString(conn, s); err != nil {
		return err
	}
	return expect(conn, s, within)
}

func expect(conn net.Conn, s string, within time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	got := make([]byte, len(s))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != s {
		return fmt.Errorf("got %q, want %q", got, s)
	}
	return nil
}

func TestProxyStallsAndLosesNothing(t *testing.T) {
	for _, d := range []Direction{ToServer, ToClient, BothWays} {
		p, conn := dialEcho(t)
		p.Stall(d)
		if err := roundTrip(conn, "held", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("direction %d: a stalled connection answered: %v", d, err)
		}
		p.Resume()
		if err := expect(conn, "held", time.Second); err != nil {
			t.Errorf("direction %d: %v", d, err)
		}
	}
}

func TestProxySwallowsAndCutsOnResume(t *testing.T) {
	p, conn := dialEcho(t)
	p.Swallow(ToServer)
	if err := roundTrip(conn, "lost", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("swallowed bytes were answered: %v", err)
	}
	p.Resume()
	if err := expect(conn, "lost", time.Second); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestProxyCutsRefusesAndAccepts(t *testing.T) {
	p, conn := dialEcho(t)
	p.Cut()
	if err := expect(conn, "x", time.Second); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("cut: got %v, want a reset", err)
	}
	p.Refuse()
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refuse: got %v, want connection refused", err)
	}
	if err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := roundTrip(conn, "again", time.Second); err != nil {
		t.Error(err)
	}
	conn.Close()
	Eventually(t, 2*time.Second, func() error {
		if n := p.Connections(); n != 0 {
			return fmt.Errorf("%d connections are left", n)
		}
		return nil
	})
}

func TestProxyDelaysAndThrottles(t *testing.T) {
	tests := []struct {
		name   string
		bytes  int
		change func(*Proxy)
		least  time.Duration
	}{
		{"delay", 5, func(p *Proxy) { p.Delay(ToServer, 150*time.Millisecond) }, 150 * time.Millisecond},
		{"throttle", 4000, func(p *Proxy) { p.Throttle(ToClient, 20000) }, 200 * time.Millisecond},
	}
	for _, tt := range tests {
		p, conn := dialEcho(t)
		tt.change(p)
		begun := time.Now()
		if err := roundTrip(conn, string(make([]byte, tt.bytes)), 5*time.Second); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if took := time.Since(begun); took < tt.least {
			t.Errorf("%s: took %s, want at least %s", tt.name, took, tt.least)
		}
	}
}

func TestProxyStallsOnlyOpenConnections(t *testing.T) {
	p, conn := dialEcho(t)
	p.StallOpen(ToServer)
	if err := roundTrip(conn, "held", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the open connection: got %v, want no answer", err)
	}
	later, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	if err := roundTrip(later, "hello", time.Second); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	if n := p.Holding(); n != 1 {
		t.Errorf("bytes of %d connections are held back, want 1", n)
	}
	p.Resume()
	if err := expect(conn, "held", time.Second); err != nil {
		t.Errorf("the open connection after Resume: %v", err)
	}
	if n := p.Holding(); n != 0 {
		t.Errorf("bytes of %d connections are held back after Resume", n)
	}
}

func TestProxySwallowsOnlyOpenConnections(t *testing.T) {
	p, conn := dialEcho(t)
	p.SwallowOpen(BothWays)
	if err := roundTrip(conn, "lost", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the open connection: got %v, want no answer", err)
	}
	later, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	if err := roundTrip(later, "hello", time.Second); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	p.Resume()
	if err := expect(conn, "lost", time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the open connection after Resume: got %v, want that it is cut", err)
	}
	if err := roundTrip(later, "again", time.Second); err != nil {
		t.Errorf("the new connection after Resume: %v", err)
	}
}

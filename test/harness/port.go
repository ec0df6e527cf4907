//go:build linux || darwin

package harness

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that systems use for outgoing
// connections (32768 or 49152 and up), so that a stopped server finds its port
// free when it is started again.
const (
	firstPort = 12000
	lastPort  = 32000
)

var ports struct {
	sync.Mutex
	taken map[int]bool
}

// freePort returns a port of 127.0.0.1 that nobody listens on and that this
// process has not been given before.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.taken == nil {
		ports.taken = make(map[int]bool)
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if ports.taken[port] {
			continue
		}
		l, err := net.Listen("tcp", localAddr(port))
		if err != nil {
			continue
		}
		l.Close()
		ports.taken[port] = true
		return port, nil
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

// localAddr is the address of a port on the loopback interface.
func localAddr(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

package replication

import (
	"net"
	"syscall"
)

// receiveBufferControl returns a net.Dialer.Control that asks for a receive
// buffer of size bytes and notes what was granted.
func receiveBufferControl(size int, granted *int) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if syscall.SetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, size) != nil {
				return // the connection works without
			}
			if n, err := syscall.GetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF); err == nil {
				*granted = n
			}
		})
	}
}

// setLowWater reports that the system has no low-water mark.
func setLowWater(net.Conn, int) bool { return false }

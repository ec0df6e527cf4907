package replication

import (
	"net"
	"syscall"
)

// receiveBufferControl returns a net.Dialer.Control that asks for a receive
// buffer of size bytes before the connection is made, so that the window scale
// fits, and notes what was granted. Asking switches the system's own tuning
// off, so a throw-away socket is asked first: where the limit
// (net.core.rmem_max) is too low to be of use, nothing is changed.
func receiveBufferControl(size int, granted *int) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		probe, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil // the connection works without
		}
		defer syscall.Close(probe)
		if setReceiveBuffer(probe, size) < usefulBufferBytes {
			return nil
		}
		return c.Control(func(fd uintptr) { *granted = setReceiveBuffer(int(fd), size) })
	}
}

// setReceiveBuffer sets the receive buffer and returns what was granted, 0 if
// it cannot be told. Linux answers with twice the value, for its bookkeeping.
func setReceiveBuffer(fd, size int) int {
	if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, size) != nil {
		return 0
	}
	n, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	if err != nil {
		return 0
	}
	return n / 2
}

// setLowWater makes the socket readable only when it holds n bytes. It
// reports whether the system can.
func setLowWater(conn net.Conn, n int) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	done := false
	err = raw.Control(func(fd uintptr) {
		done = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n) == nil
	})
	return err == nil && done
}

//go:build linux || darwin

package main

import (
	"net"
	"strings"
	"testing"
)

// Brokers that are not there are told from a database that is not, which is
// looked for first.
func TestUnreachable(t *testing.T) {
	newShop(t).want(codeOK, "init")
	t.Run("Kafka that says nothing", func(t *testing.T) {
		broker := silent(t)
		got := execute(t, "run", "--brokers", broker, "--start-timeout", "2s", "--log-level", "error")
		const want = "; check --brokers, the network, and that the brokers run: no answer in time\n"
		if got.code != codeKafka || !strings.Contains(got.err, broker) || !strings.HasSuffix(got.err, want) {
			t.Errorf("got %+v, want exit code %d and a line that ends in %q", got, codeKafka, want)
		}
	})
	t.Run("PostgreSQL too", func(t *testing.T) {
		got := execute(t, "run", "--brokers", "127.0.0.1:1", "--start-timeout", "50ms", "--dsn", "host=127.0.0.1 port=1", "--log-level", "error")
		const want = "outbox-cdc: not started within --start-timeout 50ms: cannot reach PostgreSQL at 127.0.0.1:1; check --dsn"
		if got.code != codePostgres || !strings.HasPrefix(got.err, want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("got %+v, want exit code %d and one line that begins with %q", got, codePostgres, want)
		}
	})
}

// silent returns the address of a listener that accepts and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

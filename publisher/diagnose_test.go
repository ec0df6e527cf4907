//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// testDiagnoses connects to listeners of another kind than configured. What they
// are is said within ten seconds; what has shown nothing is not judged.
func testDiagnoses(t *testing.T, kafka *harness.Kafka, trusted TLS) {
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	secureWeb := httptest.NewTLSServer(nil)
	t.Cleanup(secureWeb.Close)
	login := func(mechanism string) SASL { return SASL{Mechanism: mechanism, User: "relay", Password: testPassword} }
	addr := func(server *httptest.Server) []string { return []string{server.Listener.Addr().String()} }
	tests := []struct {
		name     string
		addrs    []string
		security Security
		kind     error // nil where nothing is to be found out
		says     string
	}{
		{"plain to a TLS listener", kafka.MTLSAddrs(), Security{}, ErrProtocol, "speaks TLS; run with --tls"},
		{"plain to a TLS listener with login", kafka.SecureAddrs(), Security{}, ErrProtocol, "speaks TLS; run with --tls"},
		{"login without TLS to a TLS listener", kafka.SecureAddrs(), Security{SASL: login(saslPlain)}, ErrProtocol, "speaks TLS; run with --tls"},
		{"TLS to a plain listener", kafka.Addrs(), Security{TLS: trusted}, ErrProtocol, "does not speak TLS; run without --tls"},
		{"no login to a listener with login", kafka.SecureAddrs(), Security{TLS: trusted}, ErrDenied, "asks for a login; run with --sasl-mechanism (it offers "},
		{"login to a listener without", kafka.Addrs(), Security{SASL: login(saslPlain)}, ErrDenied, "has no login; run without --sasl-mechanism"},
		{"plain to a web server", addr(web), Security{}, ErrProtocol, "is not Kafka but an HTTP server; correct --brokers"},
		{"TLS to a web server", addr(web), Security{TLS: trusted}, ErrProtocol, "is not Kafka but an HTTP server; correct --brokers"},
		{"plain to a web server with TLS", addr(secureWeb), Security{}, ErrProtocol, "--"},
		{"any TLS to a web server with TLS", addr(secureWeb), Security{TLS: TLS{Enabled: true, InsecureSkipVerify: true}}, ErrProtocol, "is not Kafka but an HTTP server"},
		{"to PostgreSQL", []string{harness.SharedPostgres(t).Addr()}, Security{}, ErrProtocol, "is not Kafka but PostgreSQL"},
		{"TLS to PostgreSQL", []string{harness.SharedPostgres(t).Addr()}, Security{TLS: trusted}, ErrProtocol, "is not Kafka but PostgreSQL"},
		{"to nobody", []string{closedAddr(t)}, Security{}, nil, "refused"},
		{"to a broker that is frozen", []string{silentAddr(t)}, Security{}, nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := openCluster(t, test.addrs, func(conf *clusterConfig) { conf.Security = test.security })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := c.reach(ctx)
			// One that hangs up at once may take its answer along; run asks
			// again too.
			for range 2 {
				if err == nil || strings.Contains(err.Error(), test.says) {
					break
				}
				err = c.reach(ctx)
			}
			var found *Fault
			switch errors.As(err, &found); {
			case err == nil || !strings.Contains(err.Error(), test.says):
				t.Errorf("got %v, want %q", err, test.says)
			case test.kind == nil && found != nil:
				t.Errorf("got %v, want nothing found out", found)
			case test.kind != nil && !errors.Is(err, test.kind):
				t.Errorf("got %v, want %v", err, test.kind)
			case test.kind != nil && !strings.Contains(err.Error(), test.addrs[0]):
				t.Errorf("got %v, want it to name %s", err, test.addrs[0])
			}
		})
	}
}

//go:build linux || darwin

package integration

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) {
	code := harness.Main(m)
	if proxied.kafka != nil {
		if err := proxied.kafka.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close the proxied broker:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// proxied is the broker of proxiedKafka.
var proxied struct {
	sync.Mutex
	kafka *harness.Kafka
}

// proxiedKafka returns a broker with a proxy in front, which the tests of this
// package share. What a test does to the proxy is undone when it ends. The
// oracle goes past the proxy.
func proxiedKafka(t testing.TB) *harness.Kafka {
	t.Helper()
	proxied.Lock()
	defer proxied.Unlock()
	if proxied.kafka == nil {
		k, err := harness.StartKafka(t.Context(), harness.KafkaConfig{Proxied: true})
		if err != nil {
			t.Fatal(err)
		}
		proxied.kafka = k
	}
	t.Cleanup(func() {
		proxy := proxied.kafka.Broker(0).Proxy()
		proxy.Resume()
		if err := proxy.Accept(); err != nil {
			t.Error(err)
		}
	})
	return proxied.kafka
}

// long returns how long a wait that stands for hours of production is: short
// in "make test", full in "make test-matrix".
func long(short, full time.Duration) time.Duration {
	if harness.Long() {
		return full
	}
	return short
}

// many is long for counts.
func many(few, full int) int {
	if harness.Long() {
		return full
	}
	return few
}

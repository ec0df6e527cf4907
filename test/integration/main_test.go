//go:build linux || darwin

package integration

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) {
	code := harness.Main(m)
	for _, k := range proxied.kafka {
		if err := k.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close the proxied brokers:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// proxied are the clusters of proxiedKafka, by number of brokers.
var proxied struct {
	sync.Mutex
	kafka map[int]*harness.Kafka
}

// idleTimeout is how long three brokers leave a connection open on which
// nothing is said.
const idleTimeout = 4 * time.Second

// proxiedKafka returns a cluster of 1 or 3 brokers with a proxy in front of
// each, which the tests of this package share. What a test does to the proxies
// is undone when it ends; the brokers themselves must be left alone. The oracle
// goes past the proxies.
func proxiedKafka(t testing.TB, brokers int) *harness.Kafka {
	t.Helper()
	proxied.Lock()
	defer proxied.Unlock()
	k := proxied.kafka[brokers]
	if k == nil {
		config := harness.KafkaConfig{Brokers: brokers, Proxied: true}
		if brokers == 3 {
			config.Properties = map[string]string{"connections.max.idle.ms": strconv.FormatInt(idleTimeout.Milliseconds(), 10)}
		}
		var err error
		if k, err = harness.StartKafka(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if proxied.kafka == nil {
			proxied.kafka = make(map[int]*harness.Kafka)
		}
		proxied.kafka[brokers] = k
	}
	t.Cleanup(func() {
		for _, b := range k.Brokers() {
			b.Proxy().Resume()
			if err := b.Proxy().Accept(); err != nil {
				t.Error(err)
			}
		}
	})
	return k
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

//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// fakeCluster is an in-process cluster of three brokers with the topic "orders".
func fakeCluster(t testing.TB, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(4, "orders"), kfake.ClusterID("one")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return fake
}

// proxyTo stands in front of an address; it is what names resolve to.
func proxyTo(t testing.TB, addr string) *harness.Proxy {
	t.Helper()
	proxy, err := harness.StartProxy(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	return proxy
}

// closedAddr is an address where nobody listens.
func closedAddr(t testing.TB) string {
	t.Helper()
	proxy := proxyTo(t, "127.0.0.1:1")
	proxy.Refuse()
	return proxy.Addr()
}

// silentAddr is an address that accepts connections and never answers.
func silentAddr(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestConnectPastDeadAddresses(t *testing.T) {
	fake := fakeCluster(t)
	c := openCluster(t, append([]string{closedAddr(t), silentAddr(t), closedAddr(t)}, fake.ListenAddrs()[0]))
	begun := time.Now()
	topic, err := c.topic(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if topic.partitions != 4 || topic.id == (sarama.Uuid{}) {
		t.Errorf("got %+v, want 4 partitions and an id", topic)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestConnectToNobody(t *testing.T) {
	c := openCluster(t, []string{closedAddr(t), silentAddr(t)})
	begun := time.Now()
	err := c.connect(t.Context())
	if !errors.Is(err, errNoBroker) || classify(err).class != classTransient {
		t.Errorf("got %v, want %v", err, errNoBroker)
	}
	if took := time.Since(begun); took > 2*openTimeout {
		t.Errorf("took %v", took)
	}
}

func TestTopicErrors(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	tests := []struct {
		topic string
		want  sarama.KError
	}{
		{"there-is-no-such-topic", sarama.ErrUnknownTopicOrPartition},
		{"not a name", sarama.ErrInvalidTopic},
	}
	for _, test := range tests {
		_, err := c.topic(t.Context(), test.topic)
		if answer := answerOf(err); answer == nil || answer.code != test.want || answer.topic != test.topic {
			t.Errorf("topic %q: got %v, want %v", test.topic, err, test.want)
		}
	}
	found, err := c.leaders(t.Context(), "there-is-no-such-topic", harness.NewTopic(t, kafka, harness.TopicConfig{}))
	if err != nil || len(found) != 1 {
		t.Errorf("leaders of a topic and of none: got %v and error %v, want one topic", found, err)
	}
}

func TestTopicIsCreatedOnlyIfAsked(t *testing.T) {
	fake := fakeCluster(t, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(5))
	ask := func(create bool) (topicMetadata, error) {
		c := openCluster(t, fake.ListenAddrs(), func(conf *clusterConfig) { conf.AutoCreate = create })
		return c.topic(t.Context(), "new")
	}
	if _, err := ask(false); !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		t.Errorf("not asked: got %v, want %v", err, sarama.ErrUnknownTopicOrPartition)
	}
	if topic, err := ask(true); err != nil || topic.partitions != 5 {
		t.Errorf("asked: got %+v and error %v, want 5 partitions", topic, err)
	}
}

func TestTopicOfBrokersWithoutTopicIDs(t *testing.T) {
	fake := fakeCluster(t, kfake.MaxVersions(kversion.V2_7_0()))
	topic, err := openCluster(t, fake.ListenAddrs()).topic(t.Context(), "orders")
	if err != nil || topic.partitions != 4 || topic.id != (sarama.Uuid{}) {
		t.Errorf("got %+v and error %v, want 4 partitions and no id", topic, err)
	}
}

func TestPartitionsAdded(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	name := harness.NewTopic(t, kafka, harness.TopicConfig{Partitions: 2})
	before, err := c.topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := kafka.AddPartitions(t.Context(), name, 5); err != nil {
		t.Fatal(err)
	}
	after, err := c.topic(t.Context(), name)
	if err != nil || before.partitions != 2 || after.partitions != 5 || after.id != before.id {
		t.Errorf("got %+v, then %+v and error %v, want 2 and 5 partitions of one topic", before, after, err)
	}
}

// TestAllAddressesChange moves every broker while the name in front of the
// cluster stays.
func TestAllAddressesChange(t *testing.T) {
	old := fakeCluster(t)
	name := proxyTo(t, old.ListenAddrs()[0])
	c := openCluster(t, []string{name.Addr()})
	if _, err := c.topic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	moved := fakeCluster(t)
	old.Close()
	name.SetTarget(moved.ListenAddrs()[0])
	if _, err := c.topic(t.Context(), "orders"); err != nil {
		t.Errorf("topic: %v", err)
	}
	leader, _, err := c.leader(t.Context(), "orders", 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if addr, err := c.address(leader); err != nil || addr != moved.ListenAddrs()[leader] {
		t.Errorf("leader %d is at %s (error %v), want %s", leader, addr, err, moved.ListenAddrs()[leader])
	}
}

func TestAnotherClusterBehindTheNameIsRefused(t *testing.T) {
	old := fakeCluster(t)
	name := proxyTo(t, old.ListenAddrs()[0])
	c := openCluster(t, []string{name.Addr()})
	if err := c.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := fakeCluster(t, kfake.ClusterID("two"))
	old.Close()
	name.Cut()
	name.SetTarget(other.ListenAddrs()[0])
	_, err := c.topic(t.Context(), "orders")
	var foreign *foreignClusterError
	if !errors.As(err, &foreign) || foreign.got != "two" || foreign.want != "one" || classify(err).class != classOperator {
		t.Errorf("got %v, want an operator error about cluster two instead of one", err)
	}
}

func TestCallSurvivesClosedIdleConnection(t *testing.T) {
	fake := fakeCluster(t)
	proxy := proxyTo(t, fake.ListenAddrs()[0])
	c := openCluster(t, []string{proxy.Addr()})
	ask := func() error {
		_, err := c.metadata(t.Context(), proxy.Addr(), false, "orders")
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if err := ask(); err != nil {
		t.Errorf("after the idle connection was cut: %v", err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	fake := fakeCluster(t)
	proxy := proxyTo(t, fake.ListenAddrs()[0])
	c := openCluster(t, []string{proxy.Addr()})
	tests := []struct {
		name string
		// idle says that there is a connection already.
		idle bool
	}{{"on an open connection", true}, {"while connecting", false}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			proxy.Resume()
			c.calls.forget(proxy.Addr())
			if test.idle {
				if _, err := c.metadata(t.Context(), proxy.Addr(), false, "orders"); err != nil {
					t.Fatal(err)
				}
			}
			proxy.Stall(harness.BothWays)
			enough := errors.New("enough")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, enough)
			defer cancel()
			begun := time.Now()
			_, err := c.metadata(ctx, proxy.Addr(), false, "orders")
			if !errors.Is(err, enough) {
				t.Errorf("got %v, want %v", err, enough)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestDialGivesAConnectionOfItsOwn(t *testing.T) {
	fake := fakeCluster(t)
	c := openCluster(t, fake.ListenAddrs())
	leader, _, err := c.leader(t.Context(), "orders", 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.dial(t.Context(), leader, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	if connected, err := conn.broker.Connected(); !connected || err != nil {
		t.Errorf("connected is %t, error %v", connected, err)
	}
	if _, err := c.dial(t.Context(), 99, 3); !errors.Is(err, sarama.ErrBrokerNotAvailable) {
		t.Errorf("a broker that is not there: got %v, want %v", err, sarama.ErrBrokerNotAvailable)
	}
}

func TestCloseLeavesNoConnection(t *testing.T) {
	fake := fakeCluster(t)
	proxy := proxyTo(t, fake.ListenAddrs()[0])
	c := openCluster(t, []string{proxy.Addr()})
	ask := func() error {
		_, err := c.metadata(t.Context(), proxy.Addr(), false, "orders")
		return err
	}
	var asking errgroup.Group
	for range 8 {
		asking.Go(ask)
	}
	if err := asking.Wait(); err != nil {
		t.Fatal(err)
	}
	c.close()
	if err := ask(); err != nil { // a call that was under way while the cluster was closed
		t.Error(err)
	}
	harness.Eventually(t, 5*time.Second, func() error {
		if n := proxy.Connections(); n != 0 {
			return fmt.Errorf("%d connections are open", n)
		}
		return nil
	})
}

func TestSettingsOfTheBrokers(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	name := harness.NewTopic(t, kafka, harness.TopicConfig{Settings: map[string]string{"max.message.bytes": "54321"}})
	if got := c.maxMessageBytes(t.Context(), name); got != 54321 {
		t.Errorf("max.message.bytes is %d, want 54321", got)
	}
	want := brokerLimits{producerExpiry: 24 * time.Hour, replicaLag: 30 * time.Second}
	if got := c.brokerLimits(t.Context()); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	nobody := openCluster(t, []string{closedAddr(t)})
	if got := nobody.brokerLimits(t.Context()); got != (brokerLimits{}) {
		t.Errorf("without brokers: got %+v, want nothing", got)
	}
}

func TestKafkaVersion(t *testing.T) {
	tests := []struct {
		version string
		want    sarama.KafkaVersion
		valid   bool
	}{
		{"", sarama.V2_8_0_0, true},
		{"2.8.0", sarama.V2_8_0_0, true},
		{"3.7.0", sarama.V3_7_0_0, true},
		{"2.7.0", sarama.KafkaVersion{}, false},
		{"newest", sarama.KafkaVersion{}, false},
	}
	for _, test := range tests {
		got, err := parseKafkaVersion(test.version)
		if (err == nil) != test.valid || test.valid && got != test.want {
			t.Errorf("%q: got %v and error %v, want %v", test.version, got, err, test.want)
		}
	}
}

//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// publishing runs one session over h until the test or the history ends. The
// channel tells how it ended.
func publishing(t *testing.T, p *Publisher, h *history) <-chan error {
	t.Helper()
	ctx, stop := context.WithCancel(testContext(t))
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ended <- h.publish(ctx, t, p, &letters{})
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return ended
}

// awaitTrouble waits until the only trouble is as wanted.
func awaitTrouble(t *testing.T, p *Publisher, timeout time.Duration, want func(Trouble) bool) Trouble {
	t.Helper()
	var found Trouble
	harness.Eventually(t, timeout, func() error {
		all := p.Troubles()
		if len(all) != 1 || !want(all[0]) {
			return fmt.Errorf("the troubles are %+v", all)
		}
		found = all[0]
		return nil
	})
	return found
}

// awaitEnd waits until a session has published everything, which leaves no
// trouble behind.
func awaitEnd(t *testing.T, p *Publisher, ended <-chan error) {
	t.Helper()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if all := p.Troubles(); len(all) > 0 {
		t.Errorf("troubles are left: %+v", all)
	}
}

// refuseProduce answers batches with a code for as long as refusing says.
func refuseProduce(fake *kfake.Cluster, code *kerr.Error, refusing *atomic.Bool) {
	fake.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if !refusing.Load() {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, asked := range request.(*kmsg.ProduceRequest).Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			for _, p := range asked.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, code.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			response.Topics = append(response.Topics, topic)
		}
		return response, nil, true
	})
}

// TestTroublesOfASession has the brokers refuse everything, sees that this is
// told while it lasts, that the loop answers meanwhile, and that every event is
// published in the end.
//
// Behaviours: K13
func TestTroublesOfASession(t *testing.T) {
	tests := []struct {
		name       string
		partitions int32
		code       *kerr.Error
		class      string
		texts      []string
	}{
		{"a right is missing", 1, kerr.TopicAuthorizationFailed, "operator", []string{"(29)", `WRITE and DESCRIBE on topic "` + testTopic + `"`}},
		{"a right is missing on many partitions", 12, kerr.TopicAuthorizationFailed, "operator", []string{"partitions, among them", "(29)"}},
		{"a compression that the brokers do not take", 1, kerr.UnsupportedCompressionType, "operator", []string{"(76)", "--compression"}},
		{"an old record format", 1, kerr.UnsupportedForMessageFormat, "operator", []string{"(43)", "record format", "--compression none"}},
		{"a moment that lasts", 1, kerr.NotEnoughReplicas, "transient", []string{"(19)", "lower its min.insync.replicas"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fake := newFake(t, kfake.SeedTopics(test.partitions, testTopic))
			var refusing atomic.Bool
			refusing.Store(true)
			refuseProduce(fake, test.code, &refusing)
			p := newTestPublisher(t, testConfig(fake.ListenAddrs()))
			h := manyOrders(20, 5)
			begun := time.Now()
			ended := publishing(t, p, h)
			found := awaitTrouble(t, p, 20*time.Second, func(found Trouble) bool {
				return found.Class == test.class && (found.Partition == nil) == (test.partitions > 1)
			})
			for _, text := range append(test.texts, testTopic) {
				if told := found.Topic + " " + found.Reason + " " + found.Remedy; !strings.Contains(told, text) {
					t.Errorf("the trouble is %q, want %q in it", told, text)
				}
			}
			if found.Since.Before(begun) || found.Remedy == "" {
				t.Errorf("got %+v, want it since the session began, and with a remedy", found)
			}
			if err := p.Alive(t.Context()); err != nil {
				t.Errorf("the loop does not answer: %v", err)
			}
			if got := p.Progress(); got.Pending != 100 || got.Published != 0 || got.InFlightBytes == 0 || !got.LastPublished.IsZero() {
				t.Errorf("progress while nothing goes on: %+v", got)
			}
			refusing.Store(false)
			awaitEnd(t, p, ended)
			last := h.transactions[len(h.transactions)-1].at
			if got := p.Progress(); got.Pending != 0 || got.InFlightBytes != 0 || got.Published != 100 || !got.LastCommit.Equal(last) || got.LastPublished.Before(last) {
				t.Errorf("progress at the end: %+v, the last commit was at %s", got, last)
			}
		})
	}
}

// TestTroubleOfAnIdleSession takes the brokers away while there is nothing to
// publish.
func TestTroubleOfAnIdleSession(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.ClusterID("one"))
	addr := fake.ListenAddrs()[0]
	port := netip.MustParseAddrPort(addr).Port()
	p := newTestPublisher(t, testConfig([]string{addr}))
	entries, ended := make(chan *decoder.Chunk), make(chan error, 1)
	h := manyOrders(1, 1) // which are not sent
	go func() { ended <- p.Run(t.Context(), h.session(entries, &letters{})) }()
	harness.Eventually(t, 10*time.Second, func() error {
		if p.running.Load() == nil {
			return errors.New("the session has not begun")
		}
		return nil
	})
	s := p.running.Load()
	fake.Close()
	s.report(s.housekeep)
	found := awaitTrouble(t, p, 20*time.Second, func(Trouble) bool { return true })
	if found.Class != "transient" || !strings.Contains(found.Reason, addr) || found.Remedy == "" {
		t.Errorf("got %+v, want it to name %s and a remedy", found, addr)
	}
	newFake(t, kfake.NumBrokers(1), kfake.ClusterID("one"), kfake.Ports(int(port)))
	harness.Eventually(t, 20*time.Second, func() error {
		if all := p.Troubles(); len(all) > 0 {
			return fmt.Errorf("troubles are left: %+v", all)
		}
		return nil
	})
	close(entries)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAlive covers a loop that does not answer, and no loop at all.
func TestAlive(t *testing.T) {
	p := newTestPublisher(t, testConfig([]string{"127.0.0.1:1"}))
	if err := p.Alive(t.Context()); err != nil {
		t.Errorf("without a session: got %v, want nothing", err)
	}
	stuck := &session{reports: make(chan func(), 1), over: make(chan struct{})}
	p.running.Store(stuck)
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	for range 3 { // the question is taken, or not even that
		if err := p.Alive(ctx); !errors.Is(err, late) {
			t.Errorf("with a loop that is stuck: got %v, want %v", err, late)
		}
	}
	close(stuck.over)
	if err := p.Alive(t.Context()); err != nil {
		t.Errorf("with a session that has ended: got %v, want nothing", err)
	}
}

// testTroubleOfReplicas takes one of three brokers from a topic that needs them
// all. That is told with both numbers, and over when fewer are enough.
func testTroubleOfReplicas(t *testing.T, kafka *harness.Kafka) {
	topic := harness.NewTopic(t, kafka, harness.TopicConfig{Settings: map[string]string{"min.insync.replicas": "3"}})
	leader, err := kafka.Leader(t.Context(), topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	victim := kafka.Broker((leader + 1) % 3)
	if err := victim.Kill(); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(kafka.Addrs())
	cfg.Topic = topic
	p := newTestPublisher(t, cfg)
	ended := publishing(t, p, manyOrders(3, 1))
	found := awaitTrouble(t, p, 30*time.Second, func(found Trouble) bool { return strings.Contains(found.Reason, "replicas in sync") })
	if told := fmt.Sprint(found.Reason, found.Remedy); !strings.Contains(told, topic+"/0 has 2 replicas in sync and min.insync.replicas is 3") ||
		!strings.Contains(told, "lower its min.insync.replicas") || found.Class != "transient" {
		t.Errorf("got %+v, want both numbers and the remedy", found)
	}
	if err := kafka.AlterTopic(t.Context(), topic, map[string]string{"min.insync.replicas": "2"}); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, p, ended)
	if err := victim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

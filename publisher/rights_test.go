//go:build linux || darwin

package publisher

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

const testPassword = "a secret"

// allOf are the rights on topics and transactional ids that a user of
// TestAcquireWithRights may have.
type allOf struct {
	topic         []kadm.ACLOperation
	transactional []kadm.ACLOperation
	// settings are readable: DESCRIBE_CONFIGS on the cluster.
	settings bool
}

// TestAcquireWithRights covers users with more and with fewer rights.
func TestAcquireWithRights(t *testing.T) {
	users := map[string]allOf{
		"everything":      {topic: ops(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe), transactional: ops(kadm.OpWrite, kadm.OpDescribe)},
		"untransactional": {topic: ops(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe), settings: true},
		"unreading":       {topic: ops(kadm.OpWrite, kadm.OpDescribe), transactional: ops(kadm.OpWrite, kadm.OpDescribe)},
		"least":           {topic: ops(kadm.OpWrite, kadm.OpDescribe)},
		"unwriting":       {topic: ops(kadm.OpRead, kadm.OpDescribe), transactional: ops(kadm.OpWrite, kadm.OpDescribe)},
		"nobody":          {},
		"creator":         {},
		"unsettled":       {topic: ops(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)},
	}
	config := harness.KafkaConfig{Properties: map[string]string{"replica.lag.time.max.ms": "1000"}}
	for name := range users {
		config.Users = append(config.Users, harness.User{Name: name, Password: testPassword})
	}
	kafka := harness.NewKafka(t, config)
	as := func(t *testing.T, name string, change ...func(*clusterConfig)) *testPartition {
		t.Parallel()
		topic := harness.NewTopic(t, kafka, harness.TopicConfig{})
		grant(t, kafka, name, topic, users[name])
		secure := func(conf *clusterConfig) { conf.Security = securityOf(kafka, name) }
		return openPartition(t, openCluster(t, kafka.SecureAddrs(), append(change, secure)...), topic)
	}
	require := func(conf *clusterConfig) { conf.Fence = FenceRequire }

	t.Run("everything is exact", func(t *testing.T) {
		p := as(t, "everything", require)
		p.mustSend(eventBatch(p.acquire().identity, 0, 1, 1, time.Now()))
		got := p.acquire()
		p.wantMode(got, acquiredExact, "")
		p.wantTail(got, 1, 1)
	})
	t.Run("without the transactional id the partition is looked at twice", func(t *testing.T) {
		testLookTwice(as(t, "untransactional"), "transactional id")
	})
	runLong(t, "an unknown replica lag is taken for the default", func(t *testing.T) {
		p := as(t, "unsettled")
		begun := time.Now()
		p.wantMode(p.acquire(), acquiredLookingTwice, "transactional id")
		if took, want := time.Since(begun), produceTimeout+defaultReplicaLag; took < want {
			t.Errorf("took %v, want at least %v", took, want)
		}
	})
	t.Run("without READ nothing is skipped but predecessors are shut out", func(t *testing.T) {
		p := as(t, "unreading")
		first := p.acquire()
		p.wantMode(first, acquiredBlind, "READ")
		p.mustSend(eventBatch(first.identity, 0, 1, 1, time.Now()))
		second := p.acquire()
		if second.tail != nil {
			t.Errorf("tail is %+v, want none", *second.tail)
		}
		p.mustSend(eventBatch(second.identity, 0, 1, 1, time.Now()))
		p.wantRefused(eventBatch(first.identity, 1, 2, 2, time.Now()), sarama.ErrInvalidProducerEpoch)
	})
	t.Run("WRITE and DESCRIBE on the topic are enough", func(t *testing.T) {
		p := as(t, "least")
		got := p.acquire()
		p.wantMode(got, acquiredBlind, "grant READ on it")
		p.wantMode(got, acquiredBlind, "grant WRITE and DESCRIBE on transactional ids with prefix outbox-cdc.")
		p.mustSend(eventBatch(got.identity, 0, 1, 1, time.Now()))
		if limits, size := p.cluster.brokerLimits(t.Context()), p.cluster.maxMessageBytes(t.Context(), p.topic); limits != (brokerLimits{}) || size != 0 {
			t.Errorf("settings are %+v and %d, want them unknown", limits, size)
		}
	})
	t.Run("less than exact is refused where exact is required", func(t *testing.T) {
		p := as(t, "untransactional", require)
		p.wantRequired("transactional id")
	})
	t.Run("blind is refused where exact is required", func(t *testing.T) {
		p := as(t, "unreading", require)
		p.wantRequired("READ")
	})
	t.Run("without WRITE there is an operator error", func(t *testing.T) {
		p := as(t, "unwriting")
		_, err := p.tryAcquire(20 * time.Second)
		wantOperator(t, err, sarama.ErrTopicAuthorizationFailed)
	})
	t.Run("without any right there is an operator error", func(t *testing.T) {
		t.Parallel()
		topic := harness.NewTopic(t, kafka, harness.TopicConfig{})
		c := openCluster(t, kafka.SecureAddrs(), func(conf *clusterConfig) { conf.Security = securityOf(kafka, "nobody") })
		_, err := c.topic(t.Context(), topic)
		wantOperator(t, err, sarama.ErrTopicAuthorizationFailed)
	})
	t.Run("a topic is created with the right to", func(t *testing.T) { testCreateRight(t, kafka, "creator") })
	t.Run("a missing WRITE is known before the first row", func(t *testing.T) { testCheckWrite(t, kafka, "creator") })
	t.Run("looking twice can be chosen", func(t *testing.T) {
		t.Parallel()
		c := openCluster(t, kafka.Addrs(), func(conf *clusterConfig) { conf.Fence = FenceOff })
		testLookTwice(newPartition(t, kafka, c, harness.TopicConfig{}), "--fence off")
	})
	t.Run("a plain producer id can be asked for", func(t *testing.T) {
		t.Parallel()
		p := newPartition(t, kafka, openCluster(t, kafka.Addrs()), harness.TopicConfig{})
		p.plain = true
		p.wantMode(p.acquire(), acquiredLookingTwice, "87")
	})
}

func ops(operations ...kadm.ACLOperation) []kadm.ACLOperation { return operations }

func grant(t *testing.T, kafka *harness.Kafka, user, topic string, rights allOf) {
	t.Helper()
	var err error
	if len(rights.topic) > 0 {
		err = kafka.Allow(t.Context(), user, harness.Topic(topic), rights.topic...)
	}
	if len(rights.transactional) > 0 {
		err = errors.Join(err, kafka.Allow(t.Context(), user, harness.TransactionalIDs("outbox-cdc."), rights.transactional...))
	}
	if rights.settings {
		acl := kadm.NewACLs().Clusters().Allow("User:" + user).AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribeConfigs)
		_, failed := kafka.Admin().CreateACLs(t.Context(), acl)
		err = errors.Join(err, failed)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func securityOf(kafka *harness.Kafka, user string) Security {
	return Security{
		TLS:  TLS{Enabled: true, CAFile: kafka.Certificates().CA},
		SASL: SASL{Mechanism: saslScramSHA256, User: user, Password: testPassword},
	}
}

// testLookTwice lets a predecessor write between the two looks.
func testLookTwice(p *testPartition, reason string) {
	p.t.Helper()
	said := make(chan struct{}, 1)
	p.cluster.log = slog.New(signalHandler{p.cluster.log.Handler(), "looked at twice", said})
	var predecessor identity
	harness.Eventually(p.t, 20*time.Second, func() (err error) { // a broker that has just started says 14
		predecessor, err = p.cluster.plainProducer(p.t.Context())
		return err
	})
	p.mustSend(eventBatch(predecessor, 0, 1, 1, time.Now()))
	var acquired acquisition
	var acquiring errgroup.Group
	acquiring.Go(func() (err error) {
		acquired, err = p.tryAcquire(time.Minute)
		return err
	})
	select {
	case <-said:
	case <-time.After(20 * time.Second):
		p.t.Fatal("the partition was not looked at twice")
	}
	p.mustSend(eventBatch(predecessor, 1, 2, 2, time.Now()))
	if err := acquiring.Wait(); err != nil {
		p.t.Fatal(err)
	}
	p.wantMode(acquired, acquiredLookingTwice, reason)
	p.wantTail(acquired, 2, 1)
	p.mustSend(eventBatch(acquired.identity, 0, 3, 3, time.Now()))
}

// wantMode checks the mode, and that its reason names a thing.
func (p *testPartition) wantMode(acquired acquisition, mode acquireMode, reason string) {
	p.t.Helper()
	if acquired.mode != mode || !strings.Contains(acquired.reason, reason) {
		p.t.Fatalf("acquired %s (%s), want %s because of %q", acquired.mode, acquired.reason, mode, reason)
	}
}

// wantRequired expects --fence require to be refused, naming a thing.
func (p *testPartition) wantRequired(thing string) {
	p.t.Helper()
	_, err := p.tryAcquire(20 * time.Second)
	var required *fenceRequiredError
	if !errors.As(err, &required) || !strings.Contains(err.Error(), thing) {
		p.t.Errorf("got %v, want a refusal of --fence require that names %q", err, thing)
	}
}

func wantOperator(t *testing.T, err error, code sarama.KError) {
	t.Helper()
	if !errors.Is(err, code) || classify(err).class != classOperator || classify(err).remedy == "" {
		t.Errorf("got %v (%s), want %v of class operator with a remedy", err, classify(err).class, code)
	}
}

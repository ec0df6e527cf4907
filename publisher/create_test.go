//go:build linux || darwin

package publisher

import (
	"errors"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestCreateTopicsValidate(t *testing.T) {
	tests := []struct {
		name   string
		create CreateTopics
		want   []string
	}{
		{name: "off"},
		{name: "the brokers' defaults", create: CreateTopics{Enabled: true}},
		{name: "both numbers", create: CreateTopics{Enabled: true, Partitions: 12, Replication: 3}},
		{
			name: "numbers below one", create: CreateTopics{Enabled: true, Partitions: -1, Replication: -3},
			want: []string{"--create-topics-partitions must be at least 1", "--create-topics-replication must be at least 1"},
		},
		{
			name: "numbers without the switch", create: CreateTopics{Partitions: 12, Replication: 3},
			want: []string{"--create-topics-partitions needs --create-topics, got 12", "--create-topics-replication needs --create-topics, got 3"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			faults := test.create.validate()
			if len(faults) != len(test.want) {
				t.Fatalf("got %v, want %d faults", faults, len(test.want))
			}
			for i, want := range test.want {
				if !strings.Contains(faults[i].Error(), want) {
					t.Errorf("fault %d is %v, want %q in it", i, faults[i], want)
				}
			}
		})
	}
}

// creating has missing topics created.
func creating(partitions int32, replication int16) func(*clusterConfig) {
	return func(conf *clusterConfig) {
		conf.Create = CreateTopics{Enabled: true, Partitions: partitions, Replication: replication}
	}
}

// TestCreatesMissingTopics asks a broker for topics that do not exist, where they
// are not created by themselves.
func TestCreatesMissingTopics(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	for _, test := range []struct {
		name       string
		partitions int32
		want       int32
	}{{"as many partitions as asked for", 3, 3}, {"the brokers' default", 0, 1}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			topic := harness.Name(t)
			c := openCluster(t, kafka.Addrs(), creating(test.partitions, 0))
			if err := c.check(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			if found, err := c.topic(t.Context(), topic); err != nil || found.partitions != test.want {
				t.Errorf("got %+v and error %v, want %d partitions", found, err, test.want)
			}
			if err := c.create(t.Context(), topic); err != nil {
				t.Errorf("a topic that exists: got %v, want no error", err)
			}
		})
	}
	t.Run("more replicas than brokers", func(t *testing.T) {
		t.Parallel()
		topic := harness.Name(t)
		err := openCluster(t, kafka.Addrs(), creating(2, 3)).check(t.Context(), topic)
		wantOperator(t, err, sarama.ErrInvalidReplicationFactor)
		for _, text := range []string{topic, "2 partitions", "3 replicas", "1 brokers"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %q in it", err, text)
			}
		}
	})
	t.Run("not asked for", func(t *testing.T) {
		t.Parallel()
		err := openCluster(t, kafka.Addrs()).check(t.Context(), harness.Name(t))
		wantOperator(t, err, sarama.ErrUnknownTopicOrPartition)
	})
	t.Run("while events wait", func(t *testing.T) {
		t.Parallel()
		topic := harness.Name(t)
		cfg := testConfig(kafka.Addrs())
		cfg.Topic = topic + ".{aggregate_type}"
		cfg.CreateTopics = CreateTopics{Enabled: true, Partitions: 2}
		h := manyOrders(5, 2)
		if err := h.publish(testContext(t), t, newTestPublisher(t, cfg), &letters{}); err != nil {
			t.Fatal(err)
		}
		records, err := kafka.ReadAll(t.Context(), topic+".order")
		if err != nil || len(records) != 10 {
			t.Errorf("the topic holds %d records (%v), want 10", len(records), err)
		}
	})
}

// TestCreateIsAnswered covers the answers of a controller that real ones seldom
// give.
func TestCreateIsAnswered(t *testing.T) {
	tests := []struct {
		name    string
		answers []*kerr.Error
		class   class
		says    string // empty if the topic is created in the end
	}{
		{"another controller", []*kerr.Error{kerr.NotController}, 0, ""},
		{"no controller", []*kerr.Error{kerr.NotController, kerr.NotController}, classTransient, "(41)"},
		{"another process was quicker", []*kerr.Error{kerr.TopicAlreadyExists}, 0, ""},
		{"a policy", []*kerr.Error{kerr.PolicyViolation}, classOperator, "5 partitions and 2 replicas"},
		{"no such number of partitions", []*kerr.Error{kerr.InvalidPartitions}, classOperator, "5 partitions"},
		{"no right", []*kerr.Error{kerr.ClusterAuthorizationFailed}, classOperator, "(31)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fake := fakeCluster(t)
			answers := test.answers
			fake.ControlKey(int16(kmsg.CreateTopics), func(request kmsg.Request) (kmsg.Response, error, bool) {
				fake.KeepControl()
				if len(answers) == 0 {
					return nil, nil, false
				}
				response := request.ResponseKind().(*kmsg.CreateTopicsResponse)
				topic := kmsg.NewCreateTopicsResponseTopic()
				topic.Topic, topic.ErrorCode = "new", answers[0].Code
				response.Topics = append(response.Topics, topic)
				answers = answers[1:]
				return response, nil, true
			})
			c := openCluster(t, fake.ListenAddrs(), creating(5, 2))
			if err := c.connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := c.create(t.Context(), "new")
			if test.says == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			var uncreated *createError
			if !errors.As(err, &uncreated) || !strings.Contains(err.Error(), test.says) || classify(err).class != test.class || classify(err).remedy == "" {
				t.Errorf("got %v (%s), want %q of class %s with a remedy", err, classify(err).class, test.says, test.class)
			}
		})
	}
}

// testCreateRight creates a topic with the right to, and names it where it is
// missing.
func testCreateRight(t *testing.T, kafka *harness.Kafka, user string) {
	t.Parallel()
	topic := harness.Name(t)
	grant(t, kafka, user, topic, allOf{topic: ops(kadm.OpWrite, kadm.OpDescribe)})
	c := openCluster(t, kafka.SecureAddrs(), creating(1, 1), func(conf *clusterConfig) { conf.Security = securityOf(kafka, user) })
	err := c.check(t.Context(), topic)
	wantOperator(t, err, sarama.ErrTopicAuthorizationFailed)
	if remedy := classify(err).remedyFor(topic); !strings.Contains(remedy, "grant CREATE on topic") {
		t.Errorf("the remedy is %q, want it to name CREATE", remedy)
	}
	grant(t, kafka, user, topic, allOf{topic: ops(kadm.OpCreate, kadm.OpWrite, kadm.OpDescribe)})
	if err := c.check(t.Context(), topic); err != nil {
		t.Errorf("with CREATE: got %v, want no error", err)
	}
}

// testCheckWrite finds out before the first row that a topic may not be written
// to.
func testCheckWrite(t *testing.T, kafka *harness.Kafka, user string) {
	t.Parallel()
	topic := harness.NewTopic(t, kafka, harness.TopicConfig{})
	grant(t, kafka, user, topic, allOf{topic: ops(kadm.OpRead, kadm.OpDescribe)})
	c := openCluster(t, kafka.SecureAddrs(), func(conf *clusterConfig) { conf.Security = securityOf(kafka, user) })
	err := c.check(t.Context(), topic)
	wantOperator(t, err, sarama.ErrTopicAuthorizationFailed)
	if err == nil || !strings.Contains(err.Error(), "no WRITE on topic") {
		t.Errorf("got %v, want it to name WRITE", err)
	}
}

//go:build linux || darwin

package integration

import (
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestKafkaRefusal starts the relay on brokers that do not let it in, are not what
// it was told, or are no brokers: one line that names the thing and the remedy,
// an exit code, and nothing published or confirmed, though a row is waiting.
// Where waiting is of no use, it does not wait for --start-timeout, which is 30 s.
//
// Behaviours: K2, K14
func TestKafkaRefusal(t *testing.T) {
	k := harness.NewKafka(t, harness.KafkaConfig{
		Users: []harness.User{{Name: "writer", Password: rightPassword}, {Name: "reader", Password: rightPassword}, {Name: "nobody", Password: rightPassword}},
		Properties: map[string]string{
			"listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
		},
	})
	o := newOutbox(t, outboxConfig{kafka: k, partitions: 1})
	o.allow("writer", kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	o.allow("reader", kadm.OpRead, kadm.OpDescribe)
	for _, on := range []harness.Resource{harness.Topic(o.topic("never")), harness.TransactionalIDs(transactionalIDs)} {
		if err := k.Allow(t.Context(), "writer", on, kadm.OpWrite, kadm.OpDescribe); err != nil {
			t.Fatal(err)
		}
	}
	o.insert(1)
	for _, c := range slices.Concat(loginRefusals, protocolRefusals, topicRefusals) {
		t.Run(c.name, func(t *testing.T) {
			o.t = t
			c.check(t, o)
		})
	}
	o.t = t
	r := o.start(o.loginAs("writer", rightPassword, "SCRAM-SHA-256")...)
	o.awaitDrained()
	r.stop()
	o.verify()
}

// loginRefusals are what is wrong with who we are and whom we trust.
var loginRefusals = []refusal{
	{
		name:  "wrong password by PLAIN",
		flags: func(o *outbox) []string { return o.loginAs("writer", wrongPassword, "PLAIN") },
		code:  exitDenied, texts: []string{"check --sasl-user and the password"},
	},
	{
		name:  "wrong password by SCRAM",
		flags: func(o *outbox) []string { return o.loginAs("writer", wrongPassword, "SCRAM-SHA-256") },
		code:  exitDenied, texts: []string{"check --sasl-user and the password"},
	},
	{
		name:  "unknown user",
		flags: func(o *outbox) []string { return o.loginAs("stranger", rightPassword, "SCRAM-SHA-256") },
		code:  exitDenied, texts: []string{"check --sasl-user and the password"},
	},
	{
		name:  "mechanism that is not offered",
		flags: func(o *outbox) []string { return o.loginAs("writer", rightPassword, "SCRAM-SHA-512") },
		code:  exitDenied, texts: []string{"does not offer --sasl-mechanism SCRAM-SHA-512, but ", "PLAIN"},
	},
	{
		name: "certificates of another authority",
		flags: func(o *outbox) []string {
			return append(o.loginAs("writer", rightPassword, "PLAIN"), "--tls-ca", o.kafka.Certificates().OtherCA)
		},
		code: exitDenied, texts: []string{"--tls-ca", "unknown authority"},
	},
	{
		name:  "certificate of another server",
		flags: func(o *outbox) []string { return append(o.certified(), "--tls-server-name", "kafka.example") },
		code:  exitDenied, texts: []string{"--tls-server-name", "kafka.example"},
	},
	{
		name:  "no client certificate",
		flags: func(o *outbox) []string { return append(o.certified(), "--tls-cert", "", "--tls-key", "") },
		code:  exitDenied, texts: []string{"--tls-cert"},
	},
}

// overTLS are the flags by which nobody connects over TLS.
func (o *outbox) overTLS(brokers ...string) []string {
	return []string{"--brokers", brokers[0], "--tls", "--tls-ca", o.kafka.Certificates().CA}
}

// website returns the address of a web server.
func website(o *outbox) string {
	server := httptest.NewServer(nil)
	o.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// protocolRefusals are what is wrong with the address or what speaks there.
var protocolRefusals = []refusal{
	{
		name:  "no TLS to a TLS listener",
		flags: func(o *outbox) []string { return []string{"--brokers", o.kafka.MTLSAddrs()[0]} },
		code:  exitKafka, texts: []string{"speaks TLS", "run with --tls"},
	},
	{
		name: "no TLS to a TLS listener with login",
		flags: func(o *outbox) []string {
			return []string{"--brokers", o.kafka.SecureAddrs()[0], "--sasl-mechanism", "PLAIN", "--sasl-user", "writer", "--sasl-password", rightPassword}
		},
		code: exitKafka, texts: []string{"speaks TLS", "run with --tls"},
	},
	{
		name:  "TLS to a listener without",
		flags: func(o *outbox) []string { return o.overTLS(o.kafka.Addrs()...) },
		code:  exitKafka, texts: []string{"does not speak TLS", "run without --tls"},
	},
	{
		name:  "no login to a listener with login",
		flags: func(o *outbox) []string { return o.overTLS(o.kafka.SecureAddrs()...) },
		code:  exitDenied, texts: []string{"asks for a login", "--sasl-mechanism", "SCRAM-SHA-256"},
	},
	{
		name: "login to a listener without",
		flags: func(o *outbox) []string {
			return []string{"--brokers", o.kafka.Addrs()[0], "--sasl-mechanism", "PLAIN", "--sasl-user", "writer", "--sasl-password", rightPassword}
		},
		code: exitDenied, texts: []string{"has no login", "run without --sasl-mechanism"},
	},
	{
		name:  "a web server",
		flags: func(o *outbox) []string { return []string{"--brokers", website(o)} },
		code:  exitKafka, texts: []string{"not Kafka", "an HTTP server", "correct --brokers"},
	},
	{
		name:  "a web server over TLS",
		flags: func(o *outbox) []string { return o.overTLS(website(o)) },
		code:  exitKafka, texts: []string{"not Kafka", "an HTTP server", "correct --brokers"},
	},
	{
		name:  "PostgreSQL",
		flags: func(o *outbox) []string { return []string{"--brokers", o.pg.Addr()} },
		code:  exitKafka, texts: []string{"not Kafka", "PostgreSQL", "correct --brokers"},
	},
	{
		name:  "a name that does not resolve",
		flags: args("--brokers", "kafka.invalid:9092"), waits: true,
		code: exitKafka, texts: []string{"kafka.invalid", "check --brokers"},
	},
}

// fixed are the flags by which a user publishes everything to one topic.
func (o *outbox) fixed(user, aggregateType string, flags ...string) []string {
	return append(append(o.loginAs(user, rightPassword, "PLAIN"), "--topic", o.topic(aggregateType)), flags...)
}

// topicRefusals are what is wrong with a topic whose name is fixed.
var topicRefusals = []refusal{
	{
		name:  "topic missing",
		flags: func(o *outbox) []string { return []string{"--topic", o.topic("never")} },
		code:  exitUsage, texts: []string{`.never" does not exist`, "create topic", "--create-topics", "--topic"},
	},
	{
		name:  "topic not authorised",
		flags: func(o *outbox) []string { return o.fixed("nobody", "order") },
		code:  exitDenied, texts: []string{"grant WRITE and DESCRIBE on topic", `.order"`},
	},
	{
		name:  "topic not to be written to",
		flags: func(o *outbox) []string { return o.fixed("reader", "order") },
		code:  exitDenied, texts: []string{"no WRITE on topic", "grant WRITE"},
	},
	{
		name:  "topic not to be created",
		flags: func(o *outbox) []string { return o.fixed("writer", "never", "--create-topics") },
		code:  exitDenied, texts: []string{"cannot be created", "grant CREATE on topic"},
	},
	{
		name: "topic with more replicas than brokers",
		flags: func(o *outbox) []string {
			return []string{"--topic", o.topic("never"), "--create-topics", "--create-topics-partitions", "2", "--create-topics-replication", "3"}
		},
		code: exitUsage, texts: []string{"2 partitions", "3 replicas", "1 brokers", "--create-topics-replication"},
	},
}

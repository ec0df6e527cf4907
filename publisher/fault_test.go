package publisher

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/IBM/sarama"
)

func TestConnectFault(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	for _, tc := range []struct {
		name   string
		err    error
		kind   error
		remedy string
	}{
		{"nobody answers", fmt.Errorf("%w; broker a:9092: %w", errNoBroker, refused), ErrUnreachable, "check --brokers"},
		{"topic missing", &topicError{topic: "orders", code: sarama.ErrUnknownTopicOrPartition}, ErrSetup, `topic "orders" does not exist; create topic "orders", or run with --create-topics, or correct --topic`},
		{"topic not writable", &noWriteError{"orders"}, ErrDenied, `no WRITE on topic "orders"; grant WRITE and DESCRIBE`},
		{"topic not creatable", &createError{topic: "orders", err: refusal(sarama.ErrTopicAuthorizationFailed)}, ErrDenied, `grant CREATE on topic "orders" or on the cluster`},
		{"too many replicas", &createError{topic: "orders", asked: CreateTopics{Replication: 3}, brokers: 1, err: refusal(sarama.ErrInvalidReplicationFactor)}, ErrSetup, "3 replicas; the cluster has 1 brokers"},
		{"another protocol", fault(ErrProtocol, nil, "the listener speaks TLS; run with --tls"), ErrProtocol, "run with --tls"},
		{"topic refused", &topicError{topic: "orders", code: sarama.ErrInvalidTopic}, ErrSetup, "correct --topic"},
		{"topic not authorised", &topicError{topic: "orders", code: sarama.ErrTopicAuthorizationFailed}, ErrDenied, `grant WRITE and DESCRIBE on topic "orders"`},
		{"wrong password", fmt.Errorf("broker a:9092: %w", sarama.ErrSASLAuthenticationFailed), ErrDenied, "check --sasl-user and the password"},
		{"wrong mechanism", sarama.ErrUnsupportedSASLMechanism, ErrDenied, "check --sasl-mechanism"},
		{"unreadable certificate", &tlsFileError{"--tls-ca", errors.New("no PEM")}, ErrSetup, "--tls-ca"},
		{"untrusted broker", &tlsError{errors.New("certificate signed by unknown authority")}, ErrDenied, "--tls-ca"},
		{"cluster not ready", &topicError{topic: "orders", code: sarama.ErrLeaderNotAvailable}, ErrUnreachable, "a:9092"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := connectFault([]string{"a:9092"}, "orders", tc.err)
			if !errors.Is(got, tc.kind) || !strings.Contains(got.Error(), tc.remedy) || strings.Contains(got.Error(), "\n") {
				t.Errorf("got %v (%v), want %v that says %q", got, got.(*Fault).Kind, tc.kind, tc.remedy)
			}
		})
	}
}

package publisher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/IBM/sarama"
)

// class says what an error of the Kafka side calls for.
type class int

const (
	// classTransient: the world is broken, the event is not. Try again for ever.
	classTransient class = iota
	// classOperator: a person must act. What is concerned stands still, says so,
	// and tries again every few seconds.
	classOperator
	// classPoison: this record, if it is alone, can never be published.
	classPoison
	// classState: the broker's idea of our producer is another than ours. The
	// partition is acquired again.
	classState
)

func (c class) String() string {
	return [...]string{"transient", "operator", "poison", "state"}[c]
}

// verdict is a row of the table.
type verdict struct {
	class class
	// reason says why the error is in this class.
	reason string
	// remedy tells the operator what to do; TOPIC stands for the topic's name.
	// Never empty in the classes operator and poison.
	remedy string
}

// remedyFor returns the remedy with the name of the topic filled in.
func (v verdict) remedyFor(topic string) string {
	return strings.ReplaceAll(v.remedy, "TOPIC", fmt.Sprintf("%q", topic))
}

// classify is the one table of the errors of the Kafka side. What is not in it is
// transient: an error that nobody knows is no reason to stop or to set an event
// aside.
func classify(err error) verdict {
	var short *shortOfReplicasError
	var uncreated *createError
	switch {
	case errors.As(err, &short):
		return classifyCode(sarama.ErrNotEnoughReplicas)
	case errors.As(err, &uncreated):
		return classifyCreate(err)
	}
	if code, answered := codeOf(err); answered {
		return classifyCode(code)
	}
	var file *tlsFileError
	var foreign *foreignClusterError
	var encoding sarama.PacketEncodingError
	switch {
	case errors.Is(err, context.Canceled):
		return verdict{classTransient, "given up by ourselves", ""}
	case errors.As(err, &file):
		return verdict{classOperator, "the files on disk do not make a usable certificate", "replace the file; new connections read it again"}
	case errors.As(err, &foreign):
		return verdict{classOperator, "a topic of the same name elsewhere is another topic", "correct --brokers, or restart to use the other cluster"}
	case isRefusedTLS(err):
		return verdict{classOperator, "the two ends do not trust each other", "check --tls-ca, --tls-server-name, --tls-cert and --tls-key against the broker's listener"}
	case errors.As(err, &encoding):
		return verdict{classPoison, "the record cannot be put into the wire format", "shorten the record"}
	case isBroken(err) || isTimeout(err) || errors.Is(err, errNoBroker):
		return verdict{classTransient, "the connection failed", "check the network, and that the brokers run"}
	}
	return verdict{classTransient, "unknown", ""}
}

// classifyCode is the part of the table for the brokers' answers.
func classifyCode(code sarama.KError) verdict {
	switch code {
	// Operator: nothing but a change outside of this process helps, and the
	// event is not at fault.
	case sarama.ErrTopicAuthorizationFailed:
		return verdict{classOperator, "a right is missing", "grant WRITE and DESCRIBE on topic TOPIC, and READ to publish exactly once"}
	case sarama.ErrClusterAuthorizationFailed:
		return verdict{classOperator, "a right is missing", "grant IDEMPOTENT_WRITE on the cluster (brokers before 2.8 ask for it)"}
	case sarama.ErrTransactionalIDAuthorizationFailed:
		return verdict{classOperator, "a right is missing", "grant WRITE and DESCRIBE on transactional ids with prefix outbox-cdc."}
	case sarama.ErrUnknownTopicOrPartition:
		return verdict{classOperator, "the topic is missing; right after a topic was created, brokers say so too", "create topic TOPIC, or run with --create-topics"}
	case sarama.ErrInvalidTopic:
		return verdict{classOperator, "names are judged before they are admitted, so the cluster refuses a good one", "check the cluster's topic policy for TOPIC"}
	case sarama.ErrInvalidTimestamp:
		return verdict{classOperator, "the topic bounds timestamps, the event is fine", "raise message.timestamp.before.max.ms of topic TOPIC"}
	case sarama.ErrUnsupportedForMessageFormat:
		return verdict{classOperator, "the topic keeps an old record format without headers", "set the record format of topic TOPIC to 2, or run with --compression none if the broker refuses compressed records"}
	case sarama.ErrUnsupportedCompressionType:
		return verdict{classOperator, "the broker does not take this compression", "run with another --compression, none is always taken"}
	case sarama.ErrPolicyViolation:
		return verdict{classOperator, "a policy of the cluster refuses the record, every record alike", "check the cluster's policies for topic TOPIC"}
	case sarama.ErrUnsupportedSASLMechanism, sarama.ErrIllegalSASLState:
		return verdict{classOperator, "the listener wants another login", "check --sasl-mechanism against the broker's sasl.enabled.mechanisms"}
	case sarama.ErrSASLAuthenticationFailed:
		return verdict{classOperator, "the login was refused", "check --sasl-user and the password"}
	case sarama.ErrSecurityDisabled:
		return verdict{classOperator, "the brokers have no authorizer or login", "check --sasl-mechanism and --tls against the broker's listener"}
	case sarama.ErrUnsupportedVersion:
		return verdict{classOperator, "the broker does not know the request at all", "use brokers of version 2.1 or later"}

	// Poison: about this record, if it is alone in its batch.
	case sarama.ErrMessageSizeTooLarge, sarama.ErrMessageSetSizeTooLarge:
		return verdict{classPoison, "larger than the topic allows", "raise max.message.bytes of topic TOPIC"}
	case sarama.ErrInvalidRecord:
		return verdict{classPoison, "refused by the broker's validation, as a record without key by a compacted topic", "check cleanup.policy and the schema validation of topic TOPIC"}

	// State: the broker has no, or another, memory of our sequences, or another
	// one has acquired the partition.
	case sarama.ErrOutOfOrderSequenceNumber:
		return verdict{classState, "the broker misses records that it acknowledged, or has forgotten us", ""}
	case sarama.ErrDuplicateSequenceNumber:
		return verdict{classState, "the broker has more of ours than it remembers in detail", ""}
	case sarama.ErrInvalidProducerEpoch:
		return verdict{classState, "another one has acquired the partition", ""}
	case sarama.ErrUnknownProducerID:
		return verdict{classState, "the broker has forgotten us", ""}
	case sarama.ErrProducerFenced:
		return verdict{classState, "another one has acquired the transactional id", ""}

	// Transient rows that deserve a reason; all others are transient too.
	case sarama.ErrInvalidMessage:
		return verdict{classTransient, "damaged on the way, the checksum did not match", ""}
	case sarama.ErrNotLeaderForPartition, sarama.ErrLeaderNotAvailable, sarama.ErrReplicaNotAvailable,
		sarama.ErrFencedLeaderEpoch, sarama.ErrUnknownLeaderEpoch, codeUnknownTopicID, codeNewLeaderElected:
		return verdict{classTransient, "the leader has moved, or there is none", "check that the brokers which hold topic TOPIC run"}
	case sarama.ErrRequestTimedOut, sarama.ErrNotEnoughReplicas, sarama.ErrNotEnoughReplicasAfterAppend:
		return verdict{classTransient, "too few replicas are in sync", "bring the brokers back that hold topic TOPIC, or lower its min.insync.replicas"}
	case sarama.ErrThrottlingQuotaExceeded:
		return verdict{classTransient, "a quota was used up", ""}
	case sarama.ErrKafkaStorageError:
		return verdict{classTransient, "a disk of the broker failed, another replica takes over", ""}
	}
	return verdict{classTransient, "unknown", ""}
}

// classifyCreate is the part of the table for what hinders us from creating a
// topic.
func classifyCreate(err error) verdict {
	code, _ := codeOf(err)
	switch code {
	case sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed:
		return verdict{classOperator, "the right to create a topic is missing", "grant CREATE on topic TOPIC or on the cluster, or create topic TOPIC"}
	case sarama.ErrInvalidReplicationFactor:
		return verdict{classOperator, "there are not as many brokers as replicas", "set --create-topics-replication to at most the number of brokers, or create topic TOPIC"}
	case sarama.ErrInvalidPartitions:
		return verdict{classOperator, "the number of partitions is not possible", "correct --create-topics-partitions, which brokers before 2.4 need, or create topic TOPIC"}
	case sarama.ErrPolicyViolation:
		return verdict{classOperator, "a policy of the cluster refuses the topic", "correct --create-topics-partitions and --create-topics-replication as the cluster's policy has it, or create topic TOPIC"}
	case sarama.ErrInvalidTopic, sarama.ErrInvalidConfig, sarama.ErrUnsupportedVersion:
		return verdict{classOperator, "the cluster refuses the topic", "create topic TOPIC"}
	}
	return verdict{classTransient, "the controller does not create the topic yet", "check that the controller of the cluster runs"}
}

// Codes that sarama has no name for.
const (
	codeUnknownTopicID   sarama.KError = 100
	codeNewLeaderElected sarama.KError = 108
)

// inDoubt reports whether an attempt that ended in err may have appended the
// batch. Only an answer that the brokers give before they append rules that out.
func inDoubt(err error) bool {
	code, answered := codeOf(err)
	if !answered {
		return true
	}
	switch code {
	case sarama.ErrInvalidMessage, // 2
		sarama.ErrMessageSizeTooLarge,         // 10
		sarama.ErrNotEnoughReplicas,           // 19
		sarama.ErrTopicAuthorizationFailed,    // 29
		sarama.ErrInvalidTimestamp,            // 32
		sarama.ErrUnsupportedForMessageFormat, // 43
		sarama.ErrPolicyViolation,             // 44
		sarama.ErrOutOfOrderSequenceNumber,    // 45
		sarama.ErrDuplicateSequenceNumber,     // 46
		sarama.ErrInvalidProducerEpoch,        // 47
		sarama.ErrUnknownProducerID,           // 59
		sarama.ErrUnsupportedCompressionType,  // 76
		sarama.ErrInvalidRecord:               // 87
		return false
	}
	return true
}

// codeOf returns the broker's answer in err, and whether there is one. An answer
// of no error is none.
func codeOf(err error) (sarama.KError, bool) {
	var code sarama.KError
	if errors.As(err, &code) && code != sarama.ErrNoError {
		return code, true
	}
	return sarama.ErrNoError, false
}

// refusal makes an error of an answer; no error is nil.
func refusal(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return &refusedError{code}
}

// refusedError is an answer of a broker with its number in the text, by which
// operators find it, and which is all there is of those that sarama does not
// know.
type refusedError struct{ code sarama.KError }

func (e *refusedError) Error() string { return codeText(e.code) }
func (e *refusedError) Unwrap() error { return e.code }

// isRefusedTLS reports whether a TLS handshake failed for a reason that another
// attempt does not cure. A client certificate is refused only after the handshake,
// by an alert.
func isRefusedTLS(err error) bool {
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "remote error" {
		return true
	}
	var handshake *tlsError
	return errors.As(err, &handshake) && !isBroken(handshake.err) && !isTimeout(handshake.err)
}

// atTheDoor reports whether err, of class operator, is about being let in to a
// broker and not about what is done there.
func atTheDoor(err error) bool {
	code, answered := codeOf(err)
	switch code {
	case sarama.ErrSASLAuthenticationFailed, sarama.ErrUnsupportedSASLMechanism, sarama.ErrIllegalSASLState:
		return true
	}
	return !answered
}

// codeText is the text of an answer with its number, also for codes that sarama
// has no name for.
func codeText(code sarama.KError) string {
	text := strings.TrimPrefix(code.Error(), "kafka server: ")
	switch code {
	case codeUnknownTopicID:
		text = "This server does not host this topic ID"
	case codeNewLeaderElected:
		text = "The leader of the partition has moved"
	default:
		if strings.HasPrefix(text, "Unknown error") {
			text = "Unnamed error of the server"
		}
	}
	return fmt.Sprintf("%s (%d)", text, int16(code))
}

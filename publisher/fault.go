package publisher

import (
	"errors"
	"fmt"
	"strings"

	"github.com/IBM/sarama"
)

// The kinds of fault that keep a publisher from starting.
var (
	// ErrUnreachable: no broker answers, or not in the way that was expected.
	ErrUnreachable = errors.New("brokers unreachable")
	// ErrProtocol: what answers speaks another protocol than configured, and
	// goes on doing so.
	ErrProtocol = errors.New("another protocol")
	// ErrDenied: login, certificate or a right.
	ErrDenied = errors.New("access denied")
	// ErrSetup: a topic or a table is not set up as configured.
	ErrSetup = errors.New("not set up as configured")
)

// Fault is an error for an operator: one line that names the thing, the value
// and the remedy.
type Fault struct {
	Kind    error // ErrUnreachable, ErrProtocol, ErrDenied or ErrSetup
	Message string
	Cause   error // what was said by the other end, or nil
}

// Error returns the line.
func (f *Fault) Error() string {
	if f.Cause == nil {
		return f.Message
	}
	return f.Message + ": " + f.Cause.Error()
}

// Unwrap makes errors.Is find the kind and the cause.
func (f *Fault) Unwrap() []error {
	if f.Cause == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Cause}
}

func fault(kind, cause error, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Message: fmt.Sprintf(format, args...), Cause: cause}
}

func isDenied(code sarama.KError) bool {
	return code == sarama.ErrTopicAuthorizationFailed || code == sarama.ErrClusterAuthorizationFailed
}

// connectFault says what to do about a cluster that Connect did not find as
// configured.
func connectFault(brokers []string, topic string, err error) error {
	var found *Fault
	var file *tlsFileError
	var unwritable *noWriteError
	var uncreated *createError
	code, _ := codeOf(err)
	verdict := classify(err)
	where := strings.Join(brokers, ",")
	switch {
	case errors.As(err, &found):
		return found
	case errors.As(err, &uncreated) && verdict.class == classOperator:
		kind := ErrSetup
		if isDenied(code) {
			kind = ErrDenied
		}
		return fault(kind, nil, "%v; %s", uncreated, verdict.remedyFor(topic))
	case errors.As(err, &unwritable):
		return fault(ErrDenied, nil, "%v; %s", unwritable, verdict.remedyFor(topic))
	case code == sarama.ErrUnknownTopicOrPartition:
		return fault(ErrSetup, nil, "topic %q does not exist; %s, or correct --topic", topic, verdict.remedyFor(topic))
	case code == sarama.ErrInvalidTopic:
		return fault(ErrSetup, err, "Kafka does not accept topic %q; correct --topic", topic)
	case errors.As(err, &file):
		return fault(ErrSetup, err, "TLS to Kafka cannot be set up; %s", verdict.remedy)
	case verdict.class == classOperator:
		return fault(ErrDenied, err, "Kafka at %s does not let us in; %s", where, verdict.remedyFor(topic))
	}
	return fault(ErrUnreachable, err, "cannot reach Kafka at %s; check --brokers, the network, and that the brokers run", where)
}

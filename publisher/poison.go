package publisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// ErrHalted reports a poison event under PolicyHalt. Nothing behind the event
// has reached its partition, and the event is not confirmed.
var ErrHalted = errors.New("halted on an event that can never be published")

// Reason names why an event can never be published. The set is bounded.
type Reason string

// The reasons for which an event is poison.
const (
	ReasonNoID             Reason = "null_event_id"
	ReasonNoAggregateType  Reason = "null_aggregate_type"
	ReasonNoAggregateID    Reason = "null_aggregate_id"
	ReasonNoEventType      Reason = "null_event_type"
	ReasonInvalidTimestamp Reason = "invalid_timestamp"
	ReasonNoKey            Reason = "null_key"
	ReasonNoPartition      Reason = "null_partition"
	ReasonInvalidPartition Reason = "invalid_partition"
	ReasonInvalidTopic     Reason = "invalid_topic"
	ReasonInvalidMessage   Reason = "invalid_message"
	ReasonInvalidMetadata  Reason = "invalid_metadata"
	ReasonInvalidPayload   Reason = "invalid_payload"
	ReasonTooLarge         Reason = "record_too_large"
	ReasonInvalidRecord    Reason = "invalid_record"
	ReasonUnknownTopic     Reason = "unknown_topic"
)

// Poison says that an event can never be published, and why.
type Poison struct {
	Reason Reason
	Err    error

	// nowhere says that it cannot be told which partition the event belongs to.
	nowhere bool
}

// Error names the reason and what was found.
func (p *Poison) Error() string { return fmt.Sprintf("%s: %v", p.Reason, p.Err) }

// Unwrap returns what was found.
func (p *Poison) Unwrap() error { return p.Err }

func poison(reason Reason, format string, args ...any) *Poison {
	return &Poison{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// nowhere is poison for an event of which it cannot be told to which partition it
// belongs.
func nowhere(reason Reason, format string, args ...any) *Poison {
	p := poison(reason, format, args...)
	p.nowhere = true
	return p
}

// tooLarge says how large a record is, and how large it may be; a limit of 0 is
// not known.
func tooLarge(bytes int, topic string, limit int, err error) *Poison {
	if limit == 0 {
		return poison(ReasonTooLarge, "the record has about %d bytes, max.message.bytes of topic %q must be more than that: %w", bytes, topic, err)
	}
	return poison(ReasonTooLarge, "the record has about %d bytes, max.message.bytes of topic %q is %d: %w", bytes, topic, limit, err)
}

// DeadLetter is a poison event with what its row held.
type DeadLetter struct {
	Position decoder.Position
	Row      decoder.Row
	Topic    string // what routing gave, also if Kafka would refuse it; empty if it gave none
	Poison   *Poison
}

// StoreDeadLetter keeps a dead letter for good. It returns once the letter is
// durable, and must keep one copy if the same position is stored again. The
// row is valid until it returns.
type StoreDeadLetter func(ctx context.Context, letter DeadLetter) error

package publisher

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// acquireMode says how sure an acquisition is.
type acquireMode int

const (
	// acquiredExact: whoever wrote before is shut out, and what stands in front
	// of our marker is final.
	acquiredExact acquireMode = iota
	// acquiredLookingTwice: nobody is shut out; what a predecessor had under way
	// has been waited for.
	acquiredLookingTwice
	// acquiredBlind: the partition cannot be read, nothing is skipped.
	acquiredBlind
)

func (m acquireMode) String() string {
	return [...]string{"exact", "looking twice", "blind"}[m]
}

// guarantee is what an operator may count on in this mode.
func (m acquireMode) guarantee() string {
	return [...]string{"exact", "not exact", "at least once"}[m]
}

// acquireRequest names the partition and what is known about it.
type acquireRequest struct {
	transactionalID string
	topic           string
	topicID         sarama.Uuid
	partition       int32
	// origin and the names of the headers identify our records. Without an
	// origin there is no look at the tail.
	origin, eventIDHeader, positionHeader string
	// acknowledged is the last record of ours that the brokers acknowledged to
	// this process, nil if there is none for this topic id.
	acknowledged *acknowledged
	// plain asks for a producer id of no transactional id, after a broker has
	// refused the other kind (87).
	plain bool
	// stillOurs asks whether the slot is still ours. It is called before
	// somebody who may be its rightful owner is shut out again; its error ends
	// the acquisition.
	stillOurs func(context.Context) error
	// fault is told about every failed attempt. It may be nil.
	fault func(error)
}

// acknowledged is a record that the brokers said they have.
type acknowledged struct {
	offset   int64
	position decoder.Position
}

// acquisition is the right to write to a partition, with sequences from 0.
type acquisition struct {
	identity
	mode acquireMode
	// reason says why the mode is not exact.
	reason string
	// endOffset was the end of the partition before our marker was asked for.
	endOffset int64
	// logStart is where the partition begins.
	logStart int64
	// tail is the last record of ours, nil if there is none within reach.
	tail *tail
}

// lostDataError says that records are gone which the brokers had acknowledged,
// and which no retention removed.
type lostDataError struct {
	topic        string
	partition    int32
	acknowledged acknowledged
	// endOffset is where the partition ends now.
	endOffset int64
}

func (e *lostDataError) Error() string {
	return fmt.Sprintf("%s/%d lost acknowledged records: offset %d held the event at %s, now the partition ends at offset %d or holds another record there; check for unclean leader elections",
		e.topic, e.partition, e.acknowledged.offset, e.acknowledged.position, e.endOffset)
}

// fenceRequiredError says that --fence require cannot be satisfied.
type fenceRequiredError struct{ reason string }

func (e *fenceRequiredError) Error() string {
	return "partitions cannot be acquired exactly, which --fence require demands: " + e.reason
}

// lackingError is what makes an exact acquisition impossible.
type lackingError struct{ reason string }

func (e *lackingError) Error() string { return e.reason }

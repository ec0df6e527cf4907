package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// routingVersion changes with anything that sends an event to another
// partition than before. It is part of the origin.
const routingVersion = "1"

// template is a topic's name with placeholders: literal, field, literal, ….
type template struct {
	literals []string
	fields   []decoder.Field
}

// placeholders are the fields that a template may name.
func placeholders() map[string]decoder.Field {
	return map[string]decoder.Field{
		"aggregate_type": decoder.FieldAggregateType,
		"aggregate_id":   decoder.FieldAggregateID,
		"event_type":     decoder.FieldEventType,
	}
}

func parseTemplate(s string) (template, error) {
	var t template
	rest := s
	for {
		literal, after, found := strings.Cut(rest, "{")
		if !validTopic("x" + literal) {
			return template{}, fmt.Errorf("--topic must hold letters, digits, dot, underscore, hyphen and {placeholders}, got %q", s)
		}
		t.literals = append(t.literals, literal)
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		field, known := placeholders()[name]
		if !closed || !known {
			return template{}, fmt.Errorf("--topic may name {aggregate_type}, {aggregate_id} and {event_type}, got %q", s)
		}
		t.fields = append(t.fields, field)
		rest = behind
	}
	if len(t.fields) == 0 && !validTopic(s) {
		return template{}, fmt.Errorf("--topic is not a name that Kafka accepts: %q", s)
	}
	return t, nil
}

// validTopic reports whether Kafka accepts name for a topic. It is asked for
// each event.
func validTopic[T string | []byte](name T) bool {
	const longest = 249
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(name) > 0 && len(name) <= longest && string(name) != "." && string(name) != ".."
}

// append builds the name for a row.
func (t template) append(b []byte, row decoder.Row) ([]byte, *Poison) {
	for i, literal := range t.literals {
		b = append(b, literal...)
		if i == len(t.fields) {
			break
		}
		value := row.Field(t.fields[i])
		if value == nil {
			if t.fields[i] == decoder.FieldAggregateType {
				return b, poison(ReasonNoAggregateType, "the topic needs the aggregate type, which is NULL")
			}
			return b, poison(ReasonInvalidTopic, "the topic needs a column that is NULL")
		}
		b = append(b, value...)
	}
	return b, nil
}

// router decides, from a row alone, to which topic an event goes and what its
// key is. It belongs to one goroutine.
type router struct {
	cfg      Config
	template template
	// origin is all that decides which position goes to which partition, the
	// number of partitions excepted.
	origin string
	name   []byte // scratch
}

func newRouter(cfg Config, source string) (*router, error) {
	t, err := parseTemplate(cfg.Topic)
	if err != nil {
		return nil, err
	}
	return &router{
		cfg: cfg, template: t,
		origin: strings.Join([]string{routingVersion, source, cfg.Topic, string(cfg.Key), string(cfg.PartitionBy)}, "\x00"),
	}, nil
}

// topic returns the topic of a row, valid until the next call. With a poison
// that names the topic, the name is what routing gave.
func (r *router) topic(row decoder.Row) ([]byte, *Poison) {
	var p *Poison
	r.name, p = r.template.append(r.name[:0], row)
	if p == nil && !validTopic(r.name) {
		p = poison(ReasonInvalidTopic, "%q is not a name that Kafka accepts for a topic", r.name)
	}
	return r.name, p
}

// partition returns the partition of a row in a topic of n partitions.
func (r *router) partition(row decoder.Row, position decoder.Position, n int) int32 {
	switch r.cfg.PartitionBy {
	case PartitionByKey:
		return partitionOf(keyOf(r.cfg.Key, row), n)
	case PartitionByNone:
		return partitionOf(position.Append(nil), n)
	}
	return partitionOf(text(row, decoder.FieldAggregateID), n)
}

// originOf returns the origin header of the records of a topic with n
// partitions: a short hash that changes whenever a position might go to
// another partition than before.
func (r *router) originOf(n int) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", r.origin, n))
	return hex.AppendEncode(nil, sum[:8])
}

// judge finds what makes a row unpublishable and can be known before anything
// is sent. A topic that Kafka refuses is found by topic.
func (r *router) judge(row decoder.Row) *Poison {
	if len(row.Field(decoder.FieldID)) == 0 {
		return poison(ReasonNoID, "the event has no id, by which consumers recognise it")
	}
	if row.Field(decoder.FieldAggregateID) == nil {
		return poison(ReasonNoAggregateID, "the event has no aggregate id, by which it is kept in order")
	}
	if err := checkBytea(row); err != nil {
		return &Poison{Reason: ReasonInvalidPayload, Err: err}
	}
	if metadata := row.Field(decoder.FieldMetadata); metadata != nil {
		if err := eachMetadata(metadata, func(_, _ []byte) {}); err != nil {
			return &Poison{Reason: ReasonInvalidMetadata, Err: err}
		}
	}
	return nil
}

package publisher

import "github.com/outbox-cdc/outbox-cdc/decoder"

// router decides, from a row alone, to which topic an event goes and what its
// key is. It belongs to one goroutine.
type router struct {
	cfg   Config
	plans *plans
	// origin is all that decides which position goes to which partition, the
	// number of partitions excepted.
	origin string
	values values
	name   []byte // scratch
}

// newRouter returns the router of a session.
func newRouter(cfg Config, in Session) (*router, error) {
	t, err := parseTemplate(cfg.Topic)
	if err != nil {
		return nil, err
	}
	plans := newPlans(t)
	return &router{cfg: cfg, plans: plans, origin: originOf(cfg, t, in), values: values{plans: plans}}, nil
}

// read takes a row apart. The values are valid until the next call.
func (r *router) read(row decoder.Row) *values {
	r.values.made.reset()
	r.values.read(row)
	return &r.values
}

// topic returns the topic of an event, valid until the next call. With a poison
// that names the topic, the name is what routing gave.
func (r *router) topic(v *values) ([]byte, *Poison) {
	r.name = r.name[:0]
	for i := range v.plan.topic {
		p := &v.plan.topic[i]
		value := v.get(&p.source)
		if value == nil {
			return r.name, p.missing
		}
		r.name = append(append(r.name, value...), p.literal...)
	}
	if !validTopic(r.name) {
		return r.name, poison(ReasonInvalidTopic, "%q is not a name that Kafka accepts for a topic", r.name)
	}
	return r.name, nil
}

// partition returns the partition of an event in a topic of n partitions.
func (r *router) partition(v *values, position decoder.Position, n int) int32 {
	switch r.cfg.PartitionBy {
	case PartitionByKey:
		return partitionOf(v.key(r.cfg.Key), n)
	case PartitionByNone:
		return partitionOf(position.Append(v.made.begin(positionBytes)), n)
	}
	return partitionOf(v.aggregateID, n)
}

// key returns the key of the record.
func (v *values) key(key Key) []byte {
	if key == KeyAggregateID {
		return v.aggregateID
	}
	return v.id
}

// judge finds what makes a row unpublishable and can be known before anything
// is sent. A topic that Kafka refuses is found by topic.
func (r *router) judge(v *values) *Poison {
	if len(v.id) == 0 {
		return poison(ReasonNoID, "the event has no id, by which consumers recognise it")
	}
	if v.aggregateID == nil {
		return poison(ReasonNoAggregateID, "the event has no aggregate id, by which it is kept in order")
	}
	for _, s := range []*source{&v.plan.id, &v.plan.aggregateID, &v.plan.payload} {
		if !v.wellFormed(s) {
			return poison(ReasonInvalidPayload, "a bytea column does not hold hex digits")
		}
	}
	if metadata := v.get(&v.plan.metadata); metadata != nil && !isObject(metadata, v.plan.isJSON(&v.plan.metadata)) {
		return poison(ReasonInvalidMetadata, "metadata is not a JSON object")
	}
	return nil
}

package publisher

import "github.com/outbox-cdc/outbox-cdc/decoder"

// router decides, from a row alone, to which topic an event goes and what its
// key is. It belongs to one goroutine.
type router struct {
	plans   *plans
	routing routing
	// origin is all that decides which position goes to which partition, the
	// number of partitions excepted.
	origin string
	values values
	name   []byte // scratch
}

// newRouter returns the router of a session.
func newRouter(cfg Config, in Session) (*router, error) {
	r, err := cfg.Routing.read()
	if err != nil {
		return nil, err
	}
	f, err := cfg.Form.read()
	if err != nil {
		return nil, err
	}
	plans := newPlans(r, f)
	return &router{plans: plans, routing: r, origin: originOf(cfg, r, in), values: values{plans: plans}}, nil
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
	if aggregateType := v.get(&v.plan.aggregateType); aggregateType != nil {
		if mapped, ok := r.routing.topics[string(aggregateType)]; ok {
			r.name = append(r.name, mapped...)
			return r.name, nil
		}
	}
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

// partition returns the partition of an event in a topic of n partitions. It is
// poison if it names one that the topic does not have.
func (r *router) partition(v *values, position decoder.Position, n int) (int32, *Poison) {
	by := v.plan.route.partition
	switch {
	case by.number:
		number, ok := digits(v.get(&v.plan.partition))
		if !ok || number >= n {
			return 0, nowhere(ReasonInvalidPartition, "column %q names partition %d, and the topic has %d", by.column, number, n)
		}
		return int32(number), nil
	case by.column != "":
		return partitionOf(v.get(&v.plan.partition), n), nil
	case by.choice == string(PartitionByKey):
		return partitionOf(v.key(), n), nil
	case by.choice == string(PartitionByNone):
		return partitionOf(position.Append(v.made.begin(positionBytes)), n), nil
	}
	return partitionOf(v.aggregateID, n), nil
}

// key returns the key of the record.
func (v *values) key() []byte {
	switch by := v.plan.route.key; {
	case by.column != "":
		return v.get(&v.plan.key)
	case by.choice == string(KeyAggregateID):
		return v.aggregateID
	}
	return v.id
}

// published reports whether an event is published at all.
func (r *router) published(v *values) bool {
	return !r.routing.filters() || r.routing.published(v.get(&v.plan.eventType))
}

// judge finds what makes a row unpublishable and can be known before anything
// is sent. A topic that Kafka refuses is found by topic.
func (r *router) judge(v *values) *Poison {
	if len(v.id) == 0 {
		return poison(ReasonNoID, "the event has no id, by which consumers recognise it")
	}
	if v.aggregateID == nil {
		return nowhere(ReasonNoAggregateID, "the event has no aggregate id, by which it is kept in order")
	}
	if p := v.judgeRouting(); p != nil {
		return p
	}
	for _, s := range []*source{&v.plan.id, &v.plan.aggregateID, &v.plan.payload, &v.plan.key, &v.plan.partition} {
		if !v.wellFormed(s) {
			return poison(ReasonInvalidPayload, "a bytea column does not hold hex digits")
		}
	}
	if metadata := v.get(&v.plan.metadata); metadata != nil && !isObject(metadata, v.plan.isJSON(&v.plan.metadata)) {
		return poison(ReasonInvalidMetadata, "metadata is not a JSON object")
	}
	return v.judgeProfile()
}

// judgeRouting looks at the columns that key and partition are made of.
func (v *values) judgeRouting() *Poison {
	by := v.plan.route.partition
	if key := v.plan.route.key; key.column != "" && v.null(&v.plan.key) {
		if by.choice == string(PartitionByKey) {
			return nowhere(ReasonNoKey, "column %q, the key, is NULL", key.column)
		}
		return poison(ReasonNoKey, "column %q, the key, is NULL", key.column)
	}
	if by.column == "" {
		return nil
	}
	value := v.get(&v.plan.partition)
	if value == nil {
		return nowhere(ReasonNoPartition, "column %q, by which the partition is chosen, is NULL", by.column)
	}
	if _, ok := digits(value); by.number && (!ok || len(value) == 0 || len(value) > maxPartitionDigits) {
		return nowhere(ReasonInvalidPartition, "column %q does not hold the number of a partition", by.column)
	}
	return nil
}

// maxPartitionDigits is how long the number of a partition can be.
const maxPartitionDigits = 10

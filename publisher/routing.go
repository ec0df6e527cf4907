package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Routing says which events are published, to which topic and partition, and with
// which key. All of it is part of the origin of the records.
type Routing struct {
	// Topic is the template of the topic's name: {aggregate_type},
	// {aggregate_id} and {event_type} stand for the event's, {schema} and
	// {table} for its table's, {column:NAME} for any column.
	Topic string
	// TopicMap sends the events of an aggregate type, VALUE=TOPIC, to a topic of
	// their own.
	TopicMap    []string
	Key         Key
	PartitionBy PartitionBy
	// IncludeTypes, if there are any, are the event types that are published;
	// those in ExcludeTypes are not. What is not published is confirmed.
	IncludeTypes, ExcludeTypes []string
	// Tables are those with a topic, key or partition of their own.
	Tables []TableRouting
}

// TableRouting is what the routing of one table has of its own. An empty value is
// that of all tables.
type TableRouting struct {
	// Table is the name of the table as decoder.Table writes it.
	Table       string
	Topic       string
	Key         Key
	PartitionBy PartitionBy
	// Place is where the table was configured, such as "outbox.yaml:7".
	Place string
}

// Key is what a record's key is made of: one of the constants, or "column:NAME".
type Key string

// The keys of a record.
const (
	KeyEventID     Key = "event_id"
	KeyAggregateID Key = "aggregate_id"
)

// PartitionBy is what the partition of an event is chosen by: one of the
// constants, "column:NAME" for the hash of a column, or "number:NAME" for a column
// that holds the number of the partition.
type PartitionBy string

// The choices of a partition. The first two hash a value as the Java client
// does; "none" spreads events without regard to their aggregate.
const (
	PartitionByAggregateID PartitionBy = "aggregate_id"
	PartitionByKey         PartitionBy = "key"
	PartitionByNone        PartitionBy = "none"
)

// numberPrefix stands in front of the name of a column that holds the number of a
// partition.
const numberPrefix = "number:"

// routing is a Routing as it was read.
type routing struct {
	route                    // of every table that has none of its own
	tables map[string]route  // by the name of the table
	topics map[string]string // by aggregate type
	// include is nil if all event types are published.
	include, exclude map[string]bool
}

// route leads the events of a table to their topic and partition.
type route struct {
	template template
	// key and partition are what the two are made of.
	key, partition chosen
	names          settingNames
}

// settingNames are how messages name the settings of a route.
type settingNames struct{ topic, key, partitionBy string }

// chosen is one of the choices of a setting, or a column.
type chosen struct {
	choice string
	column string // empty without one
	number bool   // the column holds the number of the partition
}

// read reads the settings. The error joins every fault.
func (r Routing) read() (routing, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	read := routing{
		route:   readRoute(fault, r.Topic, r.Key, r.PartitionBy),
		tables:  make(map[string]route),
		topics:  readTopicMap(fault, r.TopicMap),
		include: set(r.IncludeTypes),
		exclude: set(r.ExcludeTypes),
	}
	for _, t := range r.Tables {
		read.tables[t.Table] = read.route.with(fault, t)
	}
	for _, name := range r.IncludeTypes {
		if read.exclude[name] {
			fault("--include-types and --exclude-types must not both hold %q", name)
		}
	}
	return read, errors.Join(faults...)
}

// readRoute reads the settings of all tables.
func readRoute(fault func(string, ...any), topic string, key Key, by PartitionBy) route {
	names := settingNames{"--topic", "--key", "--partition-by"}
	return route{
		template: parseTemplate(fault, names.topic, topic), key: chooseKey(fault, names.key, key),
		partition: choosePartition(fault, names.partitionBy, by), names: names,
	}
}

// with returns the route of a table that has something of its own.
func (r route) with(fault func(string, ...any), t TableRouting) route {
	if t.Topic != "" {
		r.names.topic = "topic in " + t.Place
		r.template = parseTemplate(fault, r.names.topic, t.Topic)
	}
	if t.Key != "" {
		r.names.key = "key in " + t.Place
		r.key = chooseKey(fault, r.names.key, t.Key)
	}
	if t.PartitionBy != "" {
		r.names.partitionBy = "partition_by in " + t.Place
		r.partition = choosePartition(fault, r.names.partitionBy, t.PartitionBy)
	}
	return r
}

func chooseKey(fault func(string, ...any), setting string, key Key) chosen {
	return choose(fault, setting, string(key), []string{string(KeyEventID), string(KeyAggregateID)}, columnPrefix)
}

func choosePartition(fault func(string, ...any), setting string, by PartitionBy) chosen {
	choices := []string{string(PartitionByAggregateID), string(PartitionByKey), string(PartitionByNone)}
	return choose(fault, setting, string(by), choices, columnPrefix, numberPrefix)
}

// of returns the route of a table.
func (r routing) of(table decoder.Table) route {
	if own, ok := r.tables[table.String()]; ok {
		return own
	}
	return r.route
}

// readTopicMap reads the topics of aggregate types.
func readTopicMap(fault func(string, ...any), pairs []string) map[string]string {
	topics := make(map[string]string)
	for _, pair := range pairs {
		value, topic, ok := strings.Cut(pair, "=")
		if _, twice := topics[value]; twice {
			fault("--topic-map must name each aggregate type once, got %q twice", value)
		}
		if !ok || !validTopic(topic) {
			fault("--topic-map must be AGGREGATE_TYPE=TOPIC, with a topic that Kafka accepts, got %q", pair)
		}
		topics[value] = topic
	}
	return topics
}

// choose reads a setting that is one of some choices, or a column behind one of
// some prefixes.
func choose(fault func(string, ...any), setting, value string, choices []string, prefixes ...string) chosen {
	if slices.Contains(choices, value) {
		return chosen{choice: value}
	}
	for _, prefix := range prefixes {
		if name, ok := strings.CutPrefix(value, prefix); ok && name != "" {
			return chosen{column: name, number: prefix == numberPrefix}
		}
	}
	fault("%s must be one of %s, %sNAME, got %q", setting, strings.Join(choices, ", "), strings.Join(prefixes, "NAME, "), value)
	return chosen{}
}

// set returns a set, nil for an empty one.
func set(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	s := make(map[string]bool)
	for _, name := range names {
		s[name] = true
	}
	return s
}

// needed returns the columns that a route needs beside the fields of an event.
func (r route) needed() []decoder.Needed {
	var all []decoder.Needed
	for _, name := range r.template.columns() {
		all = append(all, decoder.Needed{Column: name, By: r.names.topic})
	}
	if r.key.column != "" {
		all = append(all, decoder.Needed{Column: r.key.column, By: r.names.key, NotNull: true})
	}
	if r.partition.column != "" {
		all = append(all, decoder.Needed{Column: r.partition.column, By: r.names.partitionBy})
	}
	return all
}

// filters reports whether there are event types that are not published.
func (r routing) filters() bool { return r.include != nil || r.exclude != nil }

// published reports whether events of a type are published. NULL is no type that
// a list could hold.
func (r routing) published(eventType []byte) bool {
	if r.include != nil && (eventType == nil || !r.include[string(eventType)]) {
		return false
	}
	return eventType == nil || !r.exclude[string(eventType)]
}

// fixedTopics returns the topics that are known before an event has named one.
func (r routing) fixedTopics() []string {
	var topics []string
	for _, to := range append(slices.Collect(maps.Values(r.tables)), r.route) {
		if to.template.fixed() {
			topics = append(topics, to.template.literals[0])
		}
	}
	for _, topic := range r.topics {
		topics = append(topics, topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// ofItsOwn returns what of the route of a table is not that of all, and nothing
// if all of it is.
func (r Routing) ofItsOwn(table decoder.Table) string {
	for _, t := range r.Tables {
		topic, key, by := cmp.Or(t.Topic, r.Topic), cmp.Or(t.Key, r.Key), cmp.Or(t.PartitionBy, r.PartitionBy)
		if t.Table == table.String() && (topic != r.Topic || key != r.Key || by != r.PartitionBy) {
			return fmt.Sprintf(" route %q %q %q", topic, key, by)
		}
	}
	return ""
}

// origin returns what of the routing is not at its default and was not always
// there.
func (r Routing) origin() []string {
	var parts []string
	for _, list := range []struct {
		name   string
		values []string
	}{{"topic-map", r.TopicMap}, {"include-types", r.IncludeTypes}, {"exclude-types", r.ExcludeTypes}} {
		if len(list.values) > 0 {
			sorted := slices.Sorted(slices.Values(list.values))
			parts = append(parts, fmt.Sprintf("%s %q", list.name, slices.Compact(sorted)))
		}
	}
	return parts
}

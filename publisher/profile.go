package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Form says what a record holds beside its key.
type Form struct {
	// Headers names the headers for what is known of an event.
	Headers Profile
	// HeaderColumns are columns that become headers, COLUMN or COLUMN:NAME.
	HeaderColumns []string
	// StaticHeaders are the same in every record, NAME=VALUE.
	StaticHeaders []string
	// Envelope makes the value a JSON object that holds the event with its
	// payload.
	Envelope  bool
	Timestamp Timestamp
}

// Profile is a set of header names.
type Profile string

// The profiles. HeadersDebezium is what Debezium's outbox event router writes,
// HeadersCloudEvents the binary mode of CloudEvents over Kafka.
const (
	HeadersPlain       Profile = "plain"
	HeadersDebezium    Profile = "debezium"
	HeadersCloudEvents Profile = "cloudevents"
)

// headerKind is what the value of a header is.
type headerKind int

const (
	headerSource headerKind = iota // a value of the row, or a fixed one
	headerID
	headerAggregateID
	headerContentType
	headerTime
	headerPosition
	headerOrigin
)

// header is a header of every record of a table.
type header struct {
	name   []byte
	kind   headerKind
	source source
}

// nameOf is a header of a profile; field counts if kind is headerSource.
type nameOf struct {
	name  string
	kind  headerKind
	field decoder.Field
}

// names returns the headers of a profile, in their order.
func (p Profile) names() []nameOf {
	switch p {
	case HeadersDebezium:
		return []nameOf{
			{"id", headerID, 0}, {"eventType", headerSource, decoder.FieldEventType},
			{positionHeader, headerPosition, 0}, {originHeader, headerOrigin, 0},
		}
	case HeadersCloudEvents:
		return []nameOf{
			{"ce_specversion", headerSource, -1}, {"ce_id", headerID, 0}, {"ce_type", headerSource, decoder.FieldEventType},
			{"ce_source", headerSource, decoder.FieldAggregateType}, {"ce_subject", headerAggregateID, 0}, {"ce_partitionkey", headerAggregateID, 0},
			{"ce_time", headerTime, 0}, {contentTypeHeader, headerContentType, 0}, {"ce_sequence", headerPosition, 0}, {originHeader, headerOrigin, 0},
		}
	}
	return []nameOf{
		{eventIDHeader, headerID, 0}, {"event_type", headerSource, decoder.FieldEventType},
		{"aggregate_type", headerSource, decoder.FieldAggregateType}, {"aggregate_id", headerAggregateID, 0},
		{contentTypeHeader, headerContentType, 0}, {positionHeader, headerPosition, 0}, {originHeader, headerOrigin, 0},
	}
}

// nameOf returns the name of the header of a kind. Those of headerID and
// headerPosition are what records are recognised by in a partition.
func (p Profile) nameOf(kind headerKind) string {
	for _, n := range p.names() {
		if n.kind == kind {
			return n.name
		}
	}
	return ""
}

// cloudEventsVersion is the version of the CloudEvents specification.
const cloudEventsVersion = "1.0"

const (
	eventIDHeader     = "event_id"
	contentTypeHeader = "content-type"
)

// form is a Form as it was read.
type form struct {
	profile Profile
	columns []columnHeader
	static  []header
	// reserved are the names that are ours. The application's of those names
	// are left out.
	reserved  map[string]bool
	envelope  bool
	timestamp Timestamp
}

// columnHeader is a column that becomes a header.
type columnHeader struct{ column, name string }

// read reads the settings. The error joins every fault.
func (f Form) read() (form, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	oneOf(fault, "--headers", f.Headers, HeadersPlain, HeadersDebezium, HeadersCloudEvents)
	oneOf(fault, "--timestamp", f.Timestamp, TimestampCommit, TimestampCreatedAt, TimestampPublish)
	read := form{profile: f.Headers, envelope: f.Envelope, timestamp: f.Timestamp, reserved: make(map[string]bool)}
	for _, n := range f.Headers.names() {
		read.reserved[n.name] = true
	}
	// A record that is not ours must not pass for one, whatever the profile.
	read.reserved[positionHeader], read.reserved[originHeader] = true, true
	take := func(flag, name, value string) {
		switch {
		case !validHeader([]byte(name)):
			fault("%s must name a header of 1 to %d bytes without control characters, got %q", flag, maxHeaderName, value)
		case read.reserved[name]:
			fault("%s must not name header %q, which is there already; choose another name, got %q", flag, name, value)
		}
		read.reserved[name] = true
	}
	for _, value := range f.HeaderColumns {
		column, name, named := strings.Cut(value, ":")
		if !named {
			name = column
		}
		if column == "" {
			fault("--header must be COLUMN or COLUMN:NAME, got %q", value)
			continue
		}
		take("--header", name, value)
		read.columns = append(read.columns, columnHeader{column, name})
	}
	for _, value := range f.StaticHeaders {
		name, text, ok := strings.Cut(value, "=")
		if !ok {
			fault("--static-header must be NAME=VALUE, got %q", value)
			continue
		}
		take("--static-header", name, value)
		read.static = append(read.static, header{name: []byte(name), source: source{fixed: []byte(text)}})
	}
	return read, errors.Join(faults...)
}

// needed returns the columns that a table has to have beside the fields of an
// event.
func (f form) needed(m decoder.Mapping) []decoder.Needed {
	var all []decoder.Needed
	for _, c := range f.columns {
		all = append(all, decoder.Needed{Column: c.column, By: "--header"})
	}
	if f.timestamp == TimestampCreatedAt {
		all = append(all, decoder.Needed{Column: cmp.Or(m.CreatedAt, "created_at"), By: "--timestamp", Types: timeTypes()})
	}
	return all
}

// profile returns the headers of the records of a table.
func (p *plan) profile(f form) []header {
	var all []header
	for _, n := range f.profile.names() {
		h := header{name: []byte(n.name), kind: n.kind}
		switch {
		case n.kind != headerSource:
		case n.field < 0:
			h.source = source{fixed: []byte(cloudEventsVersion)}
		default:
			h.source = p.field(n.field)
		}
		all = append(all, h)
	}
	for _, c := range f.columns {
		all = append(all, header{name: []byte(c.name), source: p.column(c.column)})
	}
	return append(all, f.static...)
}

// judgeProfile finds what a profile demands of every event.
func (v *values) judgeProfile() *Poison {
	if v.plans.form.profile != HeadersCloudEvents {
		return nil
	}
	if len(v.get(&v.plan.eventType)) == 0 {
		return poison(ReasonNoEventType, "the event has no type, which CloudEvents demand")
	}
	if len(v.get(&v.plan.aggregateType)) == 0 {
		return poison(ReasonNoAggregateType, "the event has no aggregate type, the source that CloudEvents demand")
	}
	return nil
}

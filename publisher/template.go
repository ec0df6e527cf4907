package publisher

import (
	"strings"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

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

// columnPrefix stands in front of the name of a column, wherever a setting names
// one beside the fields of an event.
const columnPrefix = "column:"

// template is a topic's name with placeholders: literal, placeholder, literal, ….
type template struct {
	literals     []string
	placeholders []placeholder
}

// placeholder is a part of a topic's name that comes from the row or its table.
type placeholder struct {
	// field is the field of the event, if kind is ofField.
	field decoder.Field
	kind  placeholderKind
	// column is the name of the column, if kind is ofColumn.
	column string
}

type placeholderKind int

const (
	ofField placeholderKind = iota
	ofColumn
	ofTable  // the name of the table
	ofSchema // and of its schema
)

// knownPlaceholder returns what stands between the braces of a template.
func knownPlaceholder(name string) (placeholder, bool) {
	switch name {
	case "aggregate_type":
		return placeholder{field: decoder.FieldAggregateType}, true
	case "aggregate_id":
		return placeholder{field: decoder.FieldAggregateID}, true
	case "event_type":
		return placeholder{field: decoder.FieldEventType}, true
	case "table":
		return placeholder{kind: ofTable}, true
	case "schema":
		return placeholder{kind: ofSchema}, true
	}
	column, ok := strings.CutPrefix(name, columnPrefix)
	return placeholder{kind: ofColumn, column: column}, ok && column != ""
}

// parseTemplate reads a topic's name; setting is how messages name it.
func parseTemplate(fault func(string, ...any), setting, s string) template {
	var t template
	rest := s
	for {
		literal, after, found := strings.Cut(rest, "{")
		if !validTopic("x" + literal) {
			fault("%s must hold letters, digits, dot, underscore, hyphen and {placeholders}, got %q", setting, s)
			return template{}
		}
		t.literals = append(t.literals, literal)
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		p, known := knownPlaceholder(name)
		if !closed || !known {
			fault("%s may name {aggregate_type}, {aggregate_id}, {event_type}, {schema}, {table} and {column:NAME}, got %q", setting, s)
			return template{}
		}
		t.placeholders = append(t.placeholders, p)
		rest = behind
	}
	if t.fixed() && !validTopic(s) {
		fault("%s is not a name that Kafka accepts: %q", setting, s)
		return template{}
	}
	return t
}

// fixed reports whether all events go to one topic.
func (t template) fixed() bool { return len(t.placeholders) == 0 }

// namesTables reports whether the name of a topic depends on that of the table.
func (t template) namesTables() bool {
	for _, p := range t.placeholders {
		if p.kind == ofTable || p.kind == ofSchema {
			return true
		}
	}
	return false
}

// columns returns the columns that the template names.
func (t template) columns() []string {
	var names []string
	for _, p := range t.placeholders {
		if p.kind == ofColumn {
			names = append(names, p.column)
		}
	}
	return names
}

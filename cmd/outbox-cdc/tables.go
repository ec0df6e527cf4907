package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// describedTable is an entry of the list of tables, as it was written.
type describedTable struct {
	name, preset string
	columns      []describedColumn
	renamed      [][2]string // old and new names of columns
	// topic, key and partitionBy are empty where those of all tables count.
	topic, key, partitionBy string
	line                    int // of the configuration file, or of the text of an argument
}

// describedColumn says which columns of a table serve one field of an event.
type describedColumn struct {
	field string
	names []string
	list  bool // it was written as one
}

// tableKeys are the keys of an entry.
var tableKeys = []string{"name", "preset", "columns", "renamed", "topic", "key", "partition_by"}

// tablesReader reads a list of tables.
type tablesReader struct {
	tables []describedTable
	fault  func(line int, format string, args ...any)
}

// readTables returns the entries of a list of tables. Those with a fault are
// among them as far as they could be read.
func readTables(list *yaml.Node, fault func(line int, format string, args ...any)) []describedTable {
	r := tablesReader{fault: fault}
	if list = target(list); list.Kind != yaml.SequenceNode {
		fault(list.Line, "tables must be a list such as [{name: billing.outbox, preset: debezium}], got %s", nodeKind(list))
		return nil
	}
	if len(list.Content) == 0 {
		fault(list.Line, "tables must name at least one table, got an empty list")
	}
	for _, entry := range list.Content {
		r.readTable(entry.Line, target(entry))
	}
	return r.tables
}

// parseTableList reads the list from an argument or a variable, where it is
// written as in the file.
func parseTableList(text string, fault func(line int, format string, args ...any)) []describedTable {
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&document); err != nil {
		fault(1, "tables must be a list such as [{name: billing.outbox, preset: debezium}], and this is not YAML: %s", tidy(err))
		return nil
	}
	return readTables(document.Content[0], fault)
}

// readTable reads an entry. A name alone will do.
func (r *tablesReader) readTable(line int, entry *yaml.Node) {
	t := describedTable{line: line}
	switch {
	case entry.Kind == yaml.ScalarNode && !isNull(entry):
		t.name = entry.Value
	case entry.Kind == yaml.MappingNode:
		for i, key := range r.keys(entry, "an entry of tables", tableKeys) {
			switch value := target(entry.Content[2*i+1]); key {
			case "name":
				t.name = r.text(value, key)
			case "preset":
				t.preset = r.text(value, key)
			case "columns":
				t.columns = r.readColumns(value)
			case "renamed":
				t.renamed = r.readRenamed(value)
			case "topic":
				t.topic = r.text(value, key)
			case "key":
				t.key = r.text(value, key)
			case "partition_by":
				t.partitionBy = r.text(value, key)
			}
		}
	default:
		r.fault(line, "an entry of tables must be a name, or a mapping with a name, got %s", nodeKind(entry))
		return
	}
	if t.name == "" {
		r.fault(line, "an entry of tables needs a name, such as name: billing.outbox")
		return
	}
	r.tables = append(r.tables, t)
}

// keys returns the keys of a mapping, with an empty text in the place of each
// that is at fault.
func (r *tablesReader) keys(mapping *yaml.Node, of string, known []string) []string {
	keys := make([]string, 0, len(mapping.Content)/2)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := mapping.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value):
			r.fault(key.Line, "%s has no key %q%s; it may have %s", of, key.Value, nearest(key.Value, known), strings.Join(known, ", "))
			keys = append(keys, "")
		case slices.Contains(keys, key.Value):
			r.fault(key.Line, "key %q stands twice in %s", key.Value, of)
			keys = append(keys, "")
		default:
			keys = append(keys, key.Value)
		}
	}
	return keys
}

// text returns the value of a key. Nothing is as good as no key.
func (r *tablesReader) text(value *yaml.Node, key string) string {
	if value.Kind != yaml.ScalarNode {
		r.fault(value.Line, "key %q of a table must be a single value, got %s", key, nodeKind(value))
		return ""
	}
	if isNull(value) {
		return ""
	}
	return value.Value
}

func (r *tablesReader) readColumns(columns *yaml.Node) []describedColumn {
	if isNull(columns) {
		return nil
	}
	if columns.Kind != yaml.MappingNode {
		r.fault(columns.Line, "columns must be a mapping such as {payload: body}, got %s", nodeKind(columns))
		return nil
	}
	var described []describedColumn
	for i, field := range r.keys(columns, "columns", fieldNames()) {
		if c, ok := r.readColumn(field, target(columns.Content[2*i+1])); ok {
			described = append(described, c)
		}
	}
	return described
}

// readColumn reads the name of the column that serves a field, or of those that
// the id is composed of.
func (r *tablesReader) readColumn(field string, value *yaml.Node) (c describedColumn, ok bool) {
	c = describedColumn{field: field, list: value.Kind == yaml.SequenceNode}
	switch {
	case field == "" || isNull(value):
		return c, false
	case value.Kind == yaml.ScalarNode:
		c.names = []string{value.Value}
	case c.list && field == "id" && len(value.Content) > 0:
		for _, item := range value.Content {
			c.names = append(c.names, target(item).Value)
		}
	default:
		r.fault(value.Line, "column %s must be the name of a column%s, got %s", field, orList(field), nodeKind(value))
		return c, false
	}
	for _, name := range c.names {
		if name == "" || len(name) > maxColumnBytes {
			r.fault(value.Line, "column %s must be the name of a column, of at most %d bytes, got %q", field, maxColumnBytes, name)
			return c, false
		}
	}
	return c, true
}

// readRenamed reads the new names of columns, each by its old one.
func (r *tablesReader) readRenamed(renamed *yaml.Node) [][2]string {
	if isNull(renamed) {
		return nil
	}
	if renamed.Kind != yaml.MappingNode {
		r.fault(renamed.Line, "renamed must be a mapping of old names to new ones such as {payload: body}, got %s", nodeKind(renamed))
		return nil
	}
	var pairs [][2]string
	seen := make(map[string]bool)
	for i := 0; i+1 < len(renamed.Content); i += 2 {
		from, to := renamed.Content[i], target(renamed.Content[i+1])
		switch {
		case from.Kind != yaml.ScalarNode || to.Kind != yaml.ScalarNode || from.Value == "" || to.Value == "" || from.Value == to.Value:
			r.fault(from.Line, "renamed must give an old name of a column and a new one such as {payload: body}, got %q and %q", from.Value, to.Value)
		case seen[from.Value]:
			r.fault(from.Line, "column %q stands twice in renamed", from.Value)
		default:
			pairs = append(pairs, [2]string{from.Value, to.Value})
		}
		seen[from.Value] = true
	}
	return pairs
}

// maxColumnBytes is how long the name of a column can be.
const maxColumnBytes = 63

func orList(field string) string {
	if field == "id" {
		return " or a list of them"
	}
	return ""
}

// tablesText writes a list in one line, so that it reads as the same list.
func tablesText(tables []describedTable) string {
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, t := range tables {
		entry := flowMapping("name", flowText(t.name))
		if t.preset != "" {
			entry.Content = append(entry.Content, flowText("preset"), flowText(t.preset))
		}
		if len(t.columns) > 0 {
			columns := flowMapping()
			for _, c := range t.columns {
				value := flowText(c.names[0])
				if c.list {
					value = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
					for _, name := range c.names {
						value.Content = append(value.Content, flowText(name))
					}
				}
				columns.Content = append(columns.Content, flowText(c.field), value)
			}
			entry.Content = append(entry.Content, flowText("columns"), columns)
		}
		if len(t.renamed) > 0 {
			renamed := flowMapping()
			for _, pair := range t.renamed {
				renamed.Content = append(renamed.Content, flowText(pair[0]), flowText(pair[1]))
			}
			entry.Content = append(entry.Content, flowText("renamed"), renamed)
		}
		for _, pair := range [][2]string{{"topic", t.topic}, {"key", t.key}, {"partition_by", t.partitionBy}} {
			if pair[1] != "" {
				entry.Content = append(entry.Content, flowText(pair[0]), flowText(pair[1]))
			}
		}
		list.Content = append(list.Content, entry)
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		panic("write a list of tables: " + err.Error()) // it is made of texts
	}
	return strings.TrimSpace(string(text))
}

// flowMapping returns a mapping in one line, with one key or none.
func flowMapping(pair ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	if len(pair) == 2 {
		m.Content = []*yaml.Node{flowText(fmt.Sprint(pair[0])), pair[1].(*yaml.Node)}
	}
	return m
}

func flowText(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsAny(text, "\r\n") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes is how large a configuration file may be: some other file, given
// by mistake, need not be read to its end.
const maxFileBytes = 64 << 10

// file is a configuration file that was read.
type file struct {
	path    string
	entries map[string]entry
	faults  []error
}

// entry is one key of a configuration file.
type entry struct {
	value  string
	line   int
	tables []describedTable // of a kindTables
}

// readFile reads a configuration file. The error joins all of its faults; what
// is right is returned nevertheless.
func readFile(path string) (file, error) {
	f := file{path: path, entries: make(map[string]entry)}
	content, err := readUpTo(path, maxFileBytes)
	if err != nil {
		return f, fmt.Errorf("--config must name a file that can be read: %w", err)
	}
	if len(content) > maxFileBytes {
		return f, fmt.Errorf("--config must name a configuration file, got %s of more than %d KiB", path, maxFileBytes>>10)
	}
	f.parse(content)
	return f, errors.Join(f.faults...)
}

// readUpTo reads a file, or as much of it as shows that it is larger than limit.
func readUpTo(path string, limit int64) ([]byte, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return io.ReadAll(io.LimitReader(opened, limit+1))
}

func (f *file) fault(line int, format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf("%s:%d: %s", f.path, line, fmt.Sprintf(format, args...)))
}

// parse takes the entries of a document. Values are taken as they are written,
// so that off is a word and 08 a text wherever an option wants one.
func (f *file) parse(content []byte) {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return // empty, or nothing but comments
	}
	if err == nil {
		if err = decoder.Decode(&second); errors.Is(err, io.EOF) {
			f.readDocument(document.Content[0])
			return
		}
	}
	if err != nil {
		f.fault(faultyLine(content), "this is not YAML: %s", tidy(err))
		return
	}
	f.fault(second.Line, "a configuration file holds one document, and here begins another")
}

func (f *file) readDocument(root *yaml.Node) {
	if isNull(root) {
		return
	}
	if root.Kind != yaml.MappingNode {
		f.fault(root.Line, "a configuration file holds lines such as slot: orders, got %s", nodeKind(root))
		return
	}
	all := configuration()
	for i := 0; i+1 < len(root.Content); i += 2 {
		f.readEntry(all, root.Content[i], root.Content[i+1])
	}
}

func (f *file) readEntry(all []*option, key, value *yaml.Node) {
	o := findOption(all, key.Value)
	if key.Kind != yaml.ScalarNode || o == nil {
		f.fault(key.Line, "%s", unknownKey(all, key.Value))
		return
	}
	if first, twice := f.entries[o.name]; twice {
		f.fault(key.Line, "key %q stands in line %d already", o.name, first.line)
		return
	}
	if o.kind == kindTables && !isNull(value) {
		tables := readTables(value, f.fault)
		f.entries[o.name] = entry{tablesText(tables), key.Line, tables}
		return
	}
	text, fault := textOf(o, value)
	if fault != "" {
		f.fault(value.Line, "key %q %s", o.name, fault)
	} else if !isNull(value) {
		f.entries[o.name] = entry{value: text, line: key.Line}
	}
}

func unknownKey(all []*option, name string) string {
	if findOption(definitions(), name) != nil {
		return fmt.Sprintf("key %q has no place in a file, it is for the command line", name)
	}
	var names []string
	for _, o := range all {
		names = append(names, o.name)
	}
	return fmt.Sprintf("unknown key %q%s", name, nearest(name, names))
}

// textOf returns the value of a key as an argument would give it, or what is
// wrong with it.
func textOf(o *option, value *yaml.Node) (text, fault string) {
	value = target(value)
	switch {
	case value.Kind == yaml.ScalarNode:
		return value.Value, ""
	case value.Kind != yaml.SequenceNode || o.kind != kindList:
		return "", fmt.Sprintf("must be %s, got %s", wanted(o), nodeKind(value))
	}
	var items []string
	for _, item := range value.Content {
		if item = target(item); item.Kind != yaml.ScalarNode || isNull(item) {
			return "", fmt.Sprintf("must be %s, got %s in it", wanted(o), nodeKind(item))
		}
		items = append(items, item.Value)
	}
	return strings.Join(items, ","), ""
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return target(n).ShortTag() == "!!null" }

func wanted(o *option) string {
	if o.kind == kindList {
		return "a value or a list of values"
	}
	return "a single value"
}

func nodeKind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return "a single value"
}

var yamlPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// tidy returns what the YAML library found, without the line: it counts some
// from the context, some from 0, and names none for others.
func tidy(err error) string { return oneLine(yamlPrefix.ReplaceAllString(err.Error(), "")) }

// faultyLine returns the line from which on content cannot be parsed.
func faultyLine(content []byte) int {
	lines := slices.Collect(bytes.Lines(content))
	for n := len(lines); n > 0; n-- {
		if parses(bytes.Join(lines[:n-1], nil)) {
			return n
		}
	}
	return 1
}

func parses(content []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		err := decoder.Decode(new(yaml.Node))
		if err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

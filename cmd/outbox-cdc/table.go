package main

import (
	"fmt"
	"strings"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// parseTables reads the names of one or more tables, separated by commas.
func parseTables(text string) ([]decoder.Table, error) {
	var tables []decoder.Table
	for _, name := range splitNames(text) {
		t, err := parseTable(name)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// splitNames cuts text at the commas outside of double quotes.
func splitNames(text string) []string {
	quoted := false
	var names []string
	begin := 0
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ',' && !quoted:
			names, begin = append(names, text[begin:i]), i+1
		}
	}
	return append(names, text[begin:])
}

// parseTable reads the name of a table as SQL writes it: schema.table or
// table, where a part in double quotes keeps its case and may hold anything.
func parseTable(text string) (decoder.Table, error) {
	fault := func() (decoder.Table, error) {
		return decoder.Table{}, fmt.Errorf(`must be a table as in SQL, such as public.outbox_events or "My-App"."OutBox", got %q`, text)
	}
	first, rest, ok := cutIdentifier(strings.TrimSpace(text))
	if !ok {
		return fault()
	}
	if rest == "" {
		return decoder.Table{Schema: "public", Name: first}, nil
	}
	second, end, ok := cutIdentifier(strings.TrimPrefix(rest, "."))
	if !ok || end != "" || rest[0] != '.' {
		return fault()
	}
	return decoder.Table{Schema: first, Name: second}, nil
}

// cutIdentifier cuts the identifier at the front of text and returns its name
// and what follows.
func cutIdentifier(text string) (name, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexByte(text, '.')
		if end < 0 {
			end = len(text)
		}
		return fold(text[:end]), text[end:], plainIdentifier(text[:end])
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] != '"' {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '"' {
			b.WriteByte('"')
			i++
			continue
		}
		return b.String(), text[i+1:], b.Len() > 0
	}
	return "", "", false // the closing quote is missing
}

// fold returns name as the server reads it without quotes: the letters A to Z
// in lower case, all others as they are.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, name)
}

// plainIdentifier reports whether SQL takes name without quotes.
func plainIdentifier(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r >= 0x80
		digit := r >= '0' && r <= '9' || r == '$'
		if !letter && (i == 0 || !digit) {
			return false
		}
	}
	return name != ""
}

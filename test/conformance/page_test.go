//go:build linux || darwin

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// measuredPage returns the measured part of docs/debezium.md.
func measuredPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", pageName))
	if err != nil {
		t.Fatal(err)
	}
	_, measured, _, err := splitPage(string(page))
	if err != nil {
		t.Fatal(err)
	}
	return measured
}

// TestPageHasEveryCase holds the table of docs/debezium.md against the cases
// that are run: each has its line, and all of it but the record, which only a
// run can tell, is what the case says.
func TestPageHasEveryCase(t *testing.T) {
	var lines []string
	for line := range strings.Lines(measuredPage(t)) {
		if cells(line) != nil {
			lines = append(lines, line)
		}
	}
	all := comparisons()
	if len(lines) != len(all) {
		t.Errorf("the page has %d lines, there are %d cases", len(lines), len(all))
	}
	for i, c := range all[:min(len(all), len(lines))] {
		found := cells(lines[i])
		if len(found) != 6 {
			t.Errorf("a line has %d cells instead of 6: %s", len(found), lines[i])
			continue
		}
		if want := line(c, found[4]); lines[i] != want {
			t.Errorf("the page says\n%s, the case\n%s", lines[i], want)
		}
		if found[4] == "" {
			t.Errorf("%s has no record on the page", c.name)
		}
	}
}

// TestPageNamesEveryOption looks for what the router can be told, in the table
// or in the list of what has no counterpart.
func TestPageNamesEveryOption(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", pageName))
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{
		"table.field.event.id", "table.field.event.key", "table.field.event.type", "table.field.event.payload", "table.field.event.timestamp",
		"table.field.event.schema.version", "table.fields.additional.placement", "table.field.additional.missing", "table.expand.json.payload",
		"table.json.payload.null.behavior", "table.op.invalid.behavior", "route.by.field", "route.topic.regex", "route.topic.replacement",
		"route.tombstone.on.empty.payload", "tracing.span.context.field", "tracing.operation.name", "tracing.with.context.field.only",
	} {
		if !strings.Contains(string(page), option) {
			t.Errorf("%s does not mention %s", pageName, option)
		}
	}
}

// TestPageIsBroughtUpToDate writes the measured part of a page, and holds it
// against what was measured.
func TestPageIsBroughtUpToDate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := comparisons()[0]
	pair := side{records: []harness.Record{recordOf(c.idOf(0), nil)}}
	results := []result{{comparison: c, outcome: compare(pair, pair, false), there: pair, here: pair}}

	write("# Page\n")
	if err := bringPageAt(path, results, true); err == nil {
		t.Error("a page without a place for the table was accepted")
	}
	write("# Page\n" + beginMeasured + "old\n" + endMeasured + "the end\n")
	if err := bringPageAt(path, results, false); err == nil || !strings.Contains(err.Error(), "old") {
		t.Errorf("a page that is out of date: %v", err)
	}
	if err := bringPageAt(path, results, true); err != nil {
		t.Fatal(err)
	}
	if err := bringPageAt(path, results, false); err != nil {
		t.Errorf("the page that was just made: %v", err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Page\n", "the end\n", "`outbox.event.order/2`, key `4711`, `eventType: OrderPlaced`, `{\"total\": 12.50}` | nothing |\n"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// TestRecord shows what a run has seen in the cases that differ.
func TestRecord(t *testing.T) {
	c := comparison{rows: []string{"'a'"}}
	there := side{records: []harness.Record{recordOf(c.idOf(0), nil)}}
	const record = "`outbox.event.order/2`, key `4711`, `eventType: OrderPlaced`, `{\"total\": 12.50}`"
	for _, p := range []struct {
		name        string
		there, here side
		want        string
	}{
		{"stopped", side{failed: "a | b"}, there, "there: `a \\| b`<br>here: " + record},
		{"set aside", there, side{setAside: []string{c.idOf(0)}}, "there: " + record + "<br>here: a dead letter"},
		{"lost", there, side{}, "there: " + record + "<br>here: no record"},
	} {
		if got := recordOfSides(c, p.there, p.here); got != p.want {
			t.Errorf("%s: %s, want %s", p.name, got, p.want)
		}
	}
}

func recordOfSides(c comparison, there, here side) string {
	return record(result{comparison: c, outcome: compare(there, here, false), there: there, here: here})
}

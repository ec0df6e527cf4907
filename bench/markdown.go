//go:build linux || darwin

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// page is the documentation that has the tables, relative to the root of the
// repository; its chart lies beside it.
const (
	page      = "docs/benchmarks.md"
	chartFile = "benchmarks.svg"
)

// The tables of the page stand between these lines.
const (
	tablesBegin = "<!-- tables: made by go run ./bench -markdown -->"
	tablesEnd   = "<!-- end of tables -->"
)

// writePage puts the tables and the chart of reports into the page.
func writePage(page string, names []string) error {
	r, err := loadReports(names)
	if err != nil {
		return err
	}
	root, err := harness.RepositoryRoot()
	if err != nil {
		return err
	}
	path := filepath.Join(root, page)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), markdown(r))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(path), chartFile), chart(r), 0o644)
}

// fill puts tables into the text of the page.
func fill(text, tables string) (string, error) {
	before, rest, found := strings.Cut(text, tablesBegin)
	if !found {
		return "", fmt.Errorf("there is no line %q", tablesBegin)
	}
	_, after, found := strings.Cut(rest, tablesEnd)
	if !found {
		return "", fmt.Errorf("there is no line %q behind %q", tablesEnd, tablesBegin)
	}
	return before + tablesBegin + "\n" + tables + tablesEnd + after, nil
}

// markdown is the report as the page has it.
func markdown(r *report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s; %s. %s\n\n", r.description(), r.Time.Format("2006-01-02"), strings.Join(r.reservations(), " "))
	fmt.Fprintf(&b, "![Drain rate and latency](%s)\n\n", chartFile)
	verdicts, outcome := judge(r)
	fmt.Fprintf(&b, "### Targets: %s\n\n", outcome)
	writeGrid(&b, verdictGrid(verdicts))
	b.WriteString("### Growth\n\nWhat outbox-cdc needs, by the median.\n\n")
	for _, g := range growths() {
		if grid := g.grid(r); grid != nil {
			writeGrid(&b, grid)
		}
	}
	b.WriteString("### Cases\n\n")
	for _, c := range r.Cases {
		fmt.Fprintf(&b, "**%s**: %s\n\n", c.Name, c.Title)
		if c.Error != "" {
			fmt.Fprintf(&b, "It has failed: %s\n\n", strings.Join(strings.Fields(c.Error), " "))
		}
		if grid := c.grid(); grid != nil {
			writeGrid(&b, grid)
		}
	}
	return b.String()
}

// writeGrid writes a table, its first column to the left and the others to the
// right.
func writeGrid(b *strings.Builder, rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
	b.WriteString("\n")
}

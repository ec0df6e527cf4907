//go:build linux || darwin

package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeTable writes a report for a terminal.
func writeTable(w io.Writer, r *report) {
	fmt.Fprintf(w, "\n%s\n", r.description())
	for _, line := range r.reservations() {
		fmt.Fprintln(w, line)
	}
	for _, c := range r.Cases {
		fmt.Fprintf(w, "\n%s: %s\n", c.Name, c.Title)
		if c.Error != "" {
			fmt.Fprintf(w, "  FAILED: %s\n", c.Error)
		}
		align(w, c.grid())
	}
	verdicts, outcome := judge(r)
	fmt.Fprintf(w, "\n%s\n", outcome)
	align(w, verdictGrid(verdicts))
}

// description says where and with what the figures were measured.
func (r *report) description() string {
	m := r.Machine
	parts := []string{fmt.Sprintf("%s, %d cores", m.Processor, m.Cores)}
	if m.MemoryGiB > 0 {
		parts = append(parts, fmt.Sprintf("%d GiB", m.MemoryGiB))
	}
	if m.Kernel != "" {
		parts = append(parts, "Linux "+m.Kernel)
	}
	if r.PostgreSQL != "" {
		parts = append(parts, "PostgreSQL "+r.PostgreSQL)
	}
	return strings.Join(append(parts, "Kafka "+r.Kafka, strings.Replace(m.Go, "go", "Go ", 1)), ", ")
}

// reservations say what keeps the figures from being the real ones.
func (r *report) reservations() []string {
	var lines []string
	if r.Scale != 1 {
		lines = append(lines, fmt.Sprintf("Scale %g: a quick try, with rows and times that are too few to judge by.", r.Scale))
	}
	if r.Repeat == 1 {
		return append(lines, "One run of each contender.")
	}
	return append(lines, fmt.Sprintf("Median of %d runs, and the range where there is one.", r.Repeat))
}

// grid is a case as a table, with its heading.
func (c caseReport) grid() [][]string {
	shown := c.shown()
	if len(shown) == 0 {
		return nil
	}
	heading := []string{""}
	for _, f := range shown {
		heading = append(heading, f.heading)
	}
	rows := [][]string{heading}
	for _, contender := range c.Contenders {
		row := []string{contender.Name}
		for _, f := range shown {
			cell := ""
			if s, measured := summarise(contender.Runs, f); measured {
				cell = s.text(f)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// shown are the figures that somebody has in a case.
func (c caseReport) shown() []figure {
	var shown []figure
	for _, f := range figures() {
		for _, contender := range c.Contenders {
			if _, measured := summarise(contender.Runs, f); measured {
				shown = append(shown, f)
				break
			}
		}
	}
	return shown
}

func verdictGrid(verdicts []verdict) [][]string {
	rows := [][]string{{"target", "limit", "measured", ""}}
	for _, v := range verdicts {
		rows = append(rows, []string{v.what, v.limit, v.measured, v.outcome})
	}
	return rows
}

// align writes rows with the first column to the left and the others to the
// right.
func align(w io.Writer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

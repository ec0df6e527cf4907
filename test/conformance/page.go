//go:build linux || darwin

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// pageName is relative to the root of the repository.
const pageName = "docs/debezium.md"

// What is between these lines of the page is made by this command.
const (
	beginMeasured = "<!-- measured by make conformance: begin -->\n"
	endMeasured   = "<!-- measured by make conformance: end -->\n"
)

// bringPage compares the measured part of the page with the results, or with
// update writes it.
func bringPage(results []result, update bool) error {
	root, err := harness.RepositoryRoot()
	if err != nil {
		return err
	}
	return bringPageAt(filepath.Join(root, pageName), results, update)
}

// bringPageAt is bringPage for a page at a path.
func bringPageAt(path string, results []result, update bool) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, measured, after, err := splitPage(string(content))
	if err != nil {
		return err
	}
	now := measuredPart(results)
	switch {
	case update:
		return os.WriteFile(path, []byte(before+now+after), 0o644)
	case now != measured:
		return fmt.Errorf("%s does not show what was measured: %s; update it with make conformance UPDATE=1", pageName, firstDifference(measured, now))
	}
	return nil
}

// splitPage takes the page apart into what is in front of the measured part,
// that part, and what is behind it.
func splitPage(page string) (before, measured, after string, err error) {
	before, rest, begun := strings.Cut(page, beginMeasured)
	measured, after, ended := strings.Cut(rest, endMeasured)
	if !begun || !ended {
		return "", "", "", errors.New(pageName + " has no lines between which the measured part belongs")
	}
	return before + beginMeasured, measured, endMeasured + after, nil
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf("it says %q, not %q", left[i], right[i])
		}
	}
	return fmt.Sprintf("it has %d lines, not %d", len(left), len(right))
}

// measuredPart is the text between the two lines.
func measuredPart(results []result) string {
	byName := make(map[string]result)
	var pairs, identical, same int
	for _, r := range results {
		byName[r.name] = r
		pairs, identical = pairs+r.pairs, identical+r.identical
		if len(r.outcome.differs) == 0 {
			same++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured with Debezium %s and Apache Kafka %s: %d cases, in %d of them no difference; %d records compared, %d of them the same byte for byte.\n",
		harness.DebeziumVersion, harness.KafkaVersion, len(results), same, pairs, identical)
	for _, s := range sections() {
		fmt.Fprintf(&b, "\n### %s\n\n| case | router | outbox-cdc | row | record | differs in |\n|---|---|---|---|---|---|\n", s.title)
		for _, c := range s.cases {
			b.WriteString(line(c, record(byName[c.name])))
		}
	}
	b.WriteString("\n")
	return b.String()
}

// line is a comparison's line of the table. All but the record is known without
// running it.
func line(c comparison, record string) string {
	differs := c.differs.String()
	if c.why != "" {
		differs += ": " + c.why
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |\n", c.name, told(over(c.connector, c.router)), toldHere(c), code("("+c.rows[c.shown]+")"), record, differs)
}

// cells returns the cells of a line of the table, nil if it is none.
func cells(line string) []string {
	if !strings.HasPrefix(line, "| `") {
		return nil
	}
	const separator = " | "
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), separator)
}

// told shows the options of the router and its connector.
func told(options map[string]string) string {
	var shown []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value := options[name]
		if value == "" {
			shown = append(shown, "no "+code(name))
			continue
		}
		shown = append(shown, code(name+"="+value))
	}
	return orDash(shown)
}

// toldHere shows the flags of outbox-cdc and its mapping.
func toldHere(c comparison) string {
	var shown []string
	if len(c.relay) > 0 {
		shown = append(shown, code(strings.Join(c.relay, " ")))
	}
	if c.mapping != "" {
		shown = append(shown, code("columns: {"+c.mapping+"}"))
	}
	return orDash(shown)
}

func orDash(shown []string) string {
	if len(shown) == 0 {
		return "–"
	}
	return strings.Join(shown, "<br>")
}

// code shows a text as it is, within a cell of a table.
func code(text string) string {
	const longest = 140
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	text = strings.NewReplacer("|", `\|`, "\n", " ", "`", "'").Replace(text)
	return "`" + text + "`"
}

// record shows what the two sides have made of the row that is shown.
func record(r result) string {
	id := cmp.Or(r.shownID, r.idOf(r.shown))
	theirs, ours := byID(r.there.records)[id], byID(r.here.records)[id]
	if len(r.outcome.differs) == 0 && len(ours) == 1 {
		return r.parts(ours[0])
	}
	there, here := missing(r.there), missing(r.here)
	if len(theirs) == 1 {
		there = r.parts(theirs[0])
	}
	if len(ours) == 1 {
		here = r.parts(ours[0])
	}
	return "there: " + there + "<br>here: " + here
}

// missing says why there is no record.
func missing(s side) string {
	switch {
	case s.failed != "":
		return code(s.failed)
	case len(s.setAside) > 0:
		return "a dead letter"
	}
	return "no record"
}

// parts shows a record; of its time, and of what names a run of the connector,
// only what is the same in every run.
func (r result) parts(record harness.Record) string {
	// Without a key any partition will do.
	shown := []string{code(record.Topic), "no key"}
	if record.Key != nil {
		shown = []string{code(fmt.Sprintf("%s/%d", record.Topic, record.Partition)), "key " + code(printable(record.Key))}
	}
	for _, h := range record.Headers {
		switch {
		case h.Key == idHeader && r.id == "" && r.shownID == "": // the same in all
		case h.Value == nil:
			shown = append(shown, code(h.Key)+" without a value")
		case strings.HasSuffix(h.Key, ".runId"):
			shown = append(shown, code(h.Key+": …"))
		default:
			shown = append(shown, code(h.Key+": "+printable(h.Value)))
		}
	}
	switch {
	case record.Value == nil:
		shown = append(shown, "a tombstone")
	case len(record.Value) == 0:
		shown = append(shown, "an empty value")
	default:
		shown = append(shown, code(printable(record.Value)))
	}
	if r.timed && !slices.Contains(r.outcome.differs, inTimestamp) {
		shown = append(shown, "time "+code(record.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z")))
	}
	return strings.Join(shown, ", ")
}

// printable is a text as it is, and other bytes as Go would write them.
func printable(b []byte) string {
	for _, r := range string(b) {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(string(b))
		}
	}
	return string(b)
}

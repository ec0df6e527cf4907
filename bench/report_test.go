//go:build linux || darwin

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// example is a report of plausible figures.
func example() *report {
	drain := func(name string, factor float64) caseReport {
		c := caseReport{Name: name, Title: "drain of <some> rows", Rows: 1_000_000, RowBytes: 300, Topics: 1, Partitions: 8}
		for _, x := range []struct {
			who  string
			rate float64
		}{{naive, 120_000}, {paced, 220_000}, {ours, 180_000}} {
			var runs []sample
			for _, noise := range []float64{1.1, 0.9, 1} {
				rate := x.rate * factor * noise
				runs = append(runs, sample{rowRate.name: rate, byteRate.name: rate * 300 / 1e6, peakMemory.name: 60 * noise, cpuPerMillion.name: 4})
			}
			c.Contenders = append(c.Contenders, contenderReport{x.who, runs})
		}
		return c
	}
	alone := func(name string, s sample) caseReport {
		return caseReport{Name: name, Title: name, Topics: 1, Partitions: 8, Contenders: []contenderReport{{ours, []sample{s}}}}
	}
	return &report{
		Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Seconds: 840, Scale: 1, Repeat: 3, PostgreSQL: "15.18", Kafka: "4.3.1",
		Machine: machine{Processor: "Processor & Sons", Cores: 2, MemoryGiB: 24, Kernel: "6.1", Go: "go1.26.0"},
		Cases: []caseReport{
			drain("drain-100", 1), drain("drain-1", 0.4), drain("drain-1m", 0.8), drain("rows-2kb", 0.25), drain("rows-500kb", 0.002),
			alone("latency-100", sample{latency50.name: 0.98, latency99.name: 1.8}),
			alone("latency-1000", sample{latency50.name: 1.04, latency99.name: 7.5}),
			alone("latency-10000", sample{latency50.name: 2.9, latency99.name: 216}),
			alone("start", sample{firstRecord.name: 140, allWriting.name: 210}),
			{Name: "idle", Title: "a minute without rows", Error: "it has\nfailed", Contenders: []contenderReport{{Name: ours}}},
		},
	}
}

func TestSummarise(t *testing.T) {
	runs := func(values ...float64) []sample {
		var all []sample
		for _, v := range values {
			all = append(all, sample{rowRate.name: v})
		}
		return append(all, sample{"another": 1})
	}
	for _, tt := range []struct {
		name string
		runs []sample
		want summary
		text string
	}{
		{"one", runs(1234567.5), summary{1234567.5, 1234567.5, 1234567.5}, "1,234,568"},
		{"odd", runs(3, 1000, 2), summary{3, 2, 1000}, "3 (2–1,000)"},
		{"even", runs(1, 4, 2, 3), summary{2.5, 1, 4}, "2 (1–4)"},
		{"the same as printed", runs(1.1, 1.2), summary{1.15, 1.1, 1.2}, "1"},
	} {
		got, measured := summarise(tt.runs, rowRate)
		if !measured || got != tt.want {
			t.Errorf("%s: got %+v, %t, want %+v", tt.name, got, measured, tt.want)
		}
		if text := got.text(rowRate); text != tt.text {
			t.Errorf("%s: got %q, want %q", tt.name, text, tt.text)
		}
	}
	if s, measured := summarise(runs(), rowRate); measured {
		t.Errorf("nothing: got %+v", s)
	}
}

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		v      float64
		digits int
		want   string
	}{{0, 0, "0"}, {999, 0, "999"}, {1000, 1, "1,000.0"}, {-123456.789, 2, "-123,456.79"}, {1e6, 0, "1,000,000"}, {0.05, 1, "0.1"}} {
		if got := number(tt.v, tt.digits); got != tt.want {
			t.Errorf("%g, %d digits: got %q, want %q", tt.v, tt.digits, got, tt.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i
	}
	for _, tt := range []struct {
		values []int
		share  float64
		want   int
	}{{[]int{7}, 0.99, 7}, {hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 99}, {hundred, 0, 0}} {
		if got := quantile(tt.values, tt.share); got != tt.want {
			t.Errorf("%g of %d values: got %d, want %d", tt.share, len(tt.values), got, tt.want)
		}
	}
}

// TestCourseOfADrain sees a drain of two partitions.
func TestCourseOfADrain(t *testing.T) {
	var c course
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	for _, s := range []sighting{
		{at: at(0)}, {at: at(10), acquired: 1}, {at: at(20), acquired: 1, records: 5, writing: 1}, {at: at(30), acquired: 2, records: 9, writing: 1},
		{at: at(40), acquired: 2, records: 12, writing: 2}, {at: at(50), acquired: 2, records: 105, writing: 2},
	} {
		c.see(s, 2)
	}
	want := course{
		first: sighting{at: at(20), acquired: 1, records: 5, writing: 1}, last: sighting{at: at(50), acquired: 2, records: 105, writing: 2},
		acquiring: at(10), acquired: at(30), all: at(40),
	}
	if c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	for _, tt := range []struct {
		rows  int64
		after time.Duration
		want  bool
	}{{105, 0, true}, {106, 0, false}, {106, settled, false}, {107, settled + 1, true}, {108, time.Hour, false}} {
		if got := c.complete(tt.rows, c.last.at.Add(tt.after)); got != tt.want {
			t.Errorf("complete with 105 of %d records after %s: got %t", tt.rows, tt.after, got)
		}
	}
	p := place{scenario: scenario{load: load{rows: 105, rowBytes: 1000}}}
	got := p.rates(c.first.records, c.first.at, c.last.at)
	if rate := 100 / 0.03; got[rowRate.name] != rate || got[byteRate.name] != rate/1000 {
		t.Errorf("rates: got %v", got)
	}
	if got := p.rates(105, at(0), at(0)); len(got) != 0 {
		t.Errorf("rates of rows that came at once: got %v", got)
	}
}

func TestTargets(t *testing.T) {
	verdicts, outcome := judge(example())
	want := map[string]verdict{
		"drain, 100 rows a transaction, to naive reading": {measured: "1.50 ×", limit: "≥ 1.20 ×", outcome: met},
		"commit to consumer at 1,000 rows/s, p99":         {measured: "7.50 ms", limit: "≤ 6.00 ms", outcome: missed},
		"peak memory of all cases":                        {measured: "66.0 MiB", limit: "≤ 96.0 MiB", outcome: met},
		"memory when idle":                                {measured: "–", limit: "≤ 30.0 MiB", outcome: notMeasured},
	}
	for _, v := range verdicts {
		w, named := want[v.what]
		if delete(want, v.what); named {
			if w.what = v.what; v != w {
				t.Errorf("got %+v, want %+v", v, w)
			}
		}
	}
	if len(want) > 0 || outcome != "11 of 13 targets are met, 2 are not measured" {
		t.Errorf("got %q without %v", outcome, want)
	}
	if _, outcome := judge(&report{}); outcome != "0 of 0 targets are met, 15 are not measured" {
		t.Errorf("nothing measured: got %q", outcome)
	}
}

func TestTable(t *testing.T) {
	r := example()
	r.Scale, r.Cases = 0.5, r.Cases[8:]
	var got bytes.Buffer
	writeTable(&got, r)
	text, _, _ := strings.Cut(got.String(), "  drain,")
	const want = `
Processor & Sons, 2 cores, 24 GiB, Linux 6.1, PostgreSQL 15.18, Kafka 4.3.1, Go 1.26.0
Scale 0.5: a quick try, with rows and times that are too few to judge by.
Median of 3 runs, and the range where there is one.

start: start
              first ms  all parts ms
  outbox-cdc       140           210

idle: a minute without rows
  FAILED: it has
failed

2 of 2 targets are met, 13 are not measured
  target                                                                limit  measured
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestReportsAreSavedAndMerged(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, change func(*report)) string {
		r := example()
		change(r)
		path := filepath.Join(dir, name)
		if err := r.save(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := save("one.json", func(*report) {})
	again := save("again.json", func(r *report) { r.Cases = r.Cases[:1]; r.Cases[0].Title = "again" })
	elsewhere := save("elsewhere.json", func(r *report) { r.Machine.Cores = 64 })
	if r, err := loadReports([]string{one}); err != nil || !reflect.DeepEqual(r, example()) {
		t.Errorf("got %+v, %v, want %+v", r, err, example())
	}
	r, err := loadReports([]string{one, again})
	if err != nil || len(r.Cases) != len(example().Cases) || r.Cases[len(r.Cases)-1].Title != "again" {
		t.Errorf("merged: got %+v, %v", r, err)
	}
	if _, err := loadReports([]string{one, elsewhere}); err == nil {
		t.Error("reports of two machines were merged")
	}
	if _, err := loadReports([]string{filepath.Join(dir, "missing.json")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
}

// TestPage puts the tables into the real page, twice.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	once, err := fill(string(text), markdown(example()))
	if err != nil {
		t.Fatal(err)
	}
	twice, err := fill(once, markdown(example()))
	if err != nil || once != twice {
		t.Errorf("filled again the page is another: %v", err)
	}
	for _, part := range []string{
		"### Targets: 11 of 13 targets are met", "| naive reading | 120,000 (108,000–132,000) |", "It has failed: it has failed\n",
		"| rows a transaction | case | rows/s |", "| 1 | drain-1 | 72,000 |", "](" + chartFile + ")", "| commit to consumer at 100 rows/s, p50 | ≤ 1.20 ms | 0.98 ms | met |",
	} {
		if !strings.Contains(once, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if strings.Contains(once, "| partitions of the topic |") {
		t.Error("the page shows a growth of which nothing was measured")
	}
	if _, err := fill("no such lines", ""); err == nil {
		t.Error("a page without a place for the tables was filled")
	}
}

// TestChart reads the chart as XML and looks at the bars.
func TestChart(t *testing.T) {
	for name, r := range map[string]*report{"example": example(), "empty": {}} {
		d := xml.NewDecoder(bytes.NewReader(chart(r)))
		widths := make(map[string][]string)
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			element, is := token.(xml.StartElement)
			if !is || element.Name.Local != "rect" {
				continue
			}
			attr := make(map[string]string)
			for _, a := range element.Attr {
				attr[a.Name.Local] = a.Value
			}
			widths[attr["class"]] = append(widths[attr["class"]], attr["width"])
		}
		if name == "empty" {
			if len(widths) != 1 {
				t.Errorf("an empty chart has bars: %v", widths)
			}
			continue
		}
		// The legends' squares stand in front. The longest bar leaves room for
		// the range of the best paced reading, 220,000 to 242,000 rows/s.
		for class, want := range map[string]string{"naive": "11 101 253 202 63", "paced": "11 185 464 371 116", "ours": "11 152 379 303 95"} {
			if got := strings.Join(widths[class][:5], " "); got != want {
				t.Errorf("bars of %s: got %s, want %s", class, got, want)
			}
		}
	}
	text := string(chart(example()))
	for _, part := range []string{"prefers-color-scheme: dark", "Processor &amp; Sons", ">180,000<"} {
		if !strings.Contains(text, part) {
			t.Errorf("the chart lacks %q", part)
		}
	}
}

//go:build linux || darwin

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// panel is one of the diagrams of the chart: groups of horizontal bars.
type panel struct {
	title   string
	scale   func(v, top float64) float64 // share of the width
	digits  int
	series  []series
	entries []entry
}

// series is what has a colour.
type series struct{ class, name string }

// entry is a group of bars, one for each series that was measured.
type entry struct {
	label string
	bars  []*summary // by series; nil where there is none
}

func linear(v, top float64) float64 { return v / top }

// logarithmic begins at a tenth.
func logarithmic(v, top float64) float64 {
	const least = 0.1
	return math.Log(max(v, least)/least) / math.Log(max(top, 10*least)/least)
}

// panels are the diagrams of a report, without those of which nothing was
// measured.
func panels(r *report) []panel {
	readers := []series{{"naive", naive}, {"paced", paced}, {"ours", ours}}
	percentiles := []series{{"ours", "median"}, {"high", "99th percentile"}}
	all := []panel{
		{title: "Drain: rows/s after the first record", scale: linear, series: readers, entries: r.drains(rowRate,
			"drain-1", "300 bytes, 1 a transaction", "drain-100", "300 bytes, 100 a transaction",
			"drain-1m", "300 bytes, all in one", "rows-2kb", "2 kB, 100 a transaction")},
		{title: "Drain: MB of payload a second", scale: linear, series: readers, entries: r.drains(byteRate,
			"drain-100", "rows of 300 bytes", "rows-2kb", "rows of 2 kB", "rows-500kb", "rows of 500 kB")},
		{title: "From commit to consumer: milliseconds, logarithmic", scale: logarithmic, digits: 1, series: percentiles, entries: r.delays(
			"latency-100", "100 rows/s", "latency-1000", "1,000 rows/s", "latency-10000", "10,000 rows/s")},
	}
	var measured []panel
	for _, p := range all {
		if len(p.entries) > 0 {
			measured = append(measured, p)
		}
	}
	return measured
}

// drains are the entries for cases, each named and labelled.
func (r *report) drains(f figure, labelled ...string) []entry {
	return r.entries(labelled, func(name string) []*summary {
		return []*summary{r.bar(name, naive, f), r.bar(name, paced, f), r.bar(name, ours, f)}
	})
}

func (r *report) delays(labelled ...string) []entry {
	return r.entries(labelled, func(name string) []*summary {
		return []*summary{r.bar(name, ours, latency50), r.bar(name, ours, latency99)}
	})
}

func (r *report) entries(labelled []string, bars func(name string) []*summary) []entry {
	var entries []entry
	for i := 0; i < len(labelled); i += 2 {
		e := entry{labelled[i+1], bars(labelled[i])}
		for _, bar := range e.bars {
			if bar != nil {
				entries = append(entries, e)
				break
			}
		}
	}
	return entries
}

func (r *report) bar(name, who string, f figure) *summary {
	s, measured := r.summary(name, who, f)
	if !measured {
		return nil
	}
	return &s
}

// Sizes of the chart, in its own units.
const (
	chartWidth = 860
	margin     = 24
	barsLeft   = 226 // behind the labels
	barsWidth  = 510 // in front of the values
	barHeight  = 14
	barGap     = 3
	entryGap   = 12
)

// chartStyle follows the reader's choice of light or dark.
const chartStyle = `
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .back { fill: #ffffff; }
  .title { font-weight: 600; font-size: 15px; }
  .value, .note { fill: #59636e; font-size: 12px; }
  .range { stroke: #1f2328; stroke-width: 1; fill: none; }
  .axis { stroke: #d1d9e0; stroke-width: 1; }
  .naive { fill: #afb8c1; } .paced { fill: #54aeff; } .ours { fill: #1f883d; } .high { fill: #d4a72c; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .back { fill: #0d1117; }
    .value, .note { fill: #9198a1; }
    .range { stroke: #e6edf3; }
    .axis { stroke: #3d444d; }
    .naive { fill: #6e7681; } .paced { fill: #388bfd; } .ours { fill: #3fb950; } .high { fill: #d29922; }
  }
`

// chart draws a report as SVG.
func chart(r *report) []byte {
	d := drawing{y: margin}
	for _, p := range panels(r) {
		d.panel(p)
	}
	d.y += 14
	d.text(margin, d.y, "note", r.description())
	for _, line := range r.reservations() {
		d.y += 17
		d.text(margin, d.y, "note", line)
	}
	height := d.y + margin
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-label="Figures of outbox-cdc">
<style>%[3]s</style>
<rect class="back" width="%[1]d" height="%[2]d" rx="6"/>
%[4]s</svg>
`, chartWidth, height, chartStyle, d.body.String())
}

// drawing grows from top to bottom.
type drawing struct {
	body strings.Builder
	y    int
}

// text writes one line, on a base line.
func (d *drawing) text(x, y int, class, text string) {
	fmt.Fprintf(&d.body, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, html.EscapeString(text))
}

func (d *drawing) panel(p panel) {
	d.y += 8
	d.text(margin, d.y, "title", p.title)
	d.y += 20
	x := barsLeft
	for _, s := range p.series {
		fmt.Fprintf(&d.body, `<rect class="%s" x="%d" y="%d" width="11" height="11" rx="2"/>`+"\n", s.class, x, d.y-10)
		d.text(x+17, d.y, "note", s.name)
		x += 50 + 7*len(s.name)
	}
	d.y += 12
	top, begin := p.top(), d.y
	for _, e := range p.entries {
		d.entry(p, e, top)
	}
	fmt.Fprintf(&d.body, `<line class="axis" x1="%[1]d" x2="%[1]d" y1="%[2]d" y2="%[3]d"/>`+"\n", barsLeft, begin, d.y-entryGap+4)
	d.y += 20
}

// entry draws a group of bars, its label beside the middle.
func (d *drawing) entry(p panel, e entry, top float64) {
	begin := d.y
	for i, bar := range e.bars {
		if bar == nil {
			continue
		}
		at := func(v float64) int { return barsLeft + int(math.Round(barsWidth*p.scale(v, top))) }
		fmt.Fprintf(&d.body, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`+"\n",
			p.series[i].class, barsLeft, d.y, max(at(bar.Median)-barsLeft, 1), barHeight)
		if bar.Max > bar.Min {
			fmt.Fprintf(&d.body, `<path class="range" d="M%[1]d %[3]dH%[2]dM%[1]d %[4]dv6M%[2]d %[4]dv6"/>`+"\n",
				at(bar.Min), at(bar.Max), d.y+barHeight/2, d.y+barHeight/2-3)
		}
		d.text(at(bar.Max)+8, d.y+barHeight-3, "value", number(bar.Median, p.digits))
		d.y += barHeight + barGap
	}
	d.text(margin, (begin+d.y-barGap)/2+5, "label", e.label)
	d.y += entryGap
}

// top is the largest value of a panel.
func (p panel) top() float64 {
	top := 0.0
	for _, e := range p.entries {
		for _, bar := range e.bars {
			if bar != nil {
				top = max(top, bar.Max)
			}
		}
	}
	return top
}

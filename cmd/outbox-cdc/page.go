package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
)

// page is the status as a page for a person. It needs nothing from elsewhere.
func (s status) page() string {
	var b strings.Builder
	word, color := "ready", "#1a7f37"
	if !s.Ready.Ready {
		word, color = "not ready", "#b42318"
	}
	fmt.Fprintf(&b, `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width"><title>outbox-cdc: %s, %s</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1f2328}
h1{font-size:1.3em}b{color:%s}th{text-align:left;font-weight:normal;color:#59636e;padding-right:2em;vertical-align:top}
td{font-variant-numeric:tabular-nums}li{color:#b42318}li.warning{color:#9a6700}</style></head><body>
<h1>outbox-cdc, slot %s: <b>%s</b>, %s</h1>
`, html.EscapeString(s.SlotName), word, color, html.EscapeString(s.SlotName), word, s.State)
	list(&b, "", s.Ready.Problems)
	list(&b, "warning", s.Warnings)
	if !s.Live.Alive {
		list(&b, "", []string{s.Live.Reason})
	}
	b.WriteString("<table>\n")
	for _, r := range s.rows() {
		fmt.Fprintf(&b, "<tr><th>%s</th><td>%s</td></tr>\n", html.EscapeString(r[0]), html.EscapeString(r[1]))
	}
	b.WriteString("</table>\n<p><a href=\"status\">status as JSON</a>, <a href=\"metrics\">metrics</a>, <a href=\"readyz\">readiness</a></p></body></html>\n")
	return b.String()
}

func list(b *strings.Builder, class string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("<ul>")
	for _, line := range lines {
		fmt.Fprintf(b, "<li class=%q>%s</li>", class, html.EscapeString(line))
	}
	b.WriteString("</ul>\n")
}

// rows are the facts of the page, each a name and a value.
func (s status) rows() [][2]string {
	rows := [][2]string{
		{"state", fmt.Sprintf("%s since %s", s.State, clock(s.Since))},
		{"pending events", fmt.Sprintf("%d, %s", s.Progress.Pending, sizeOf(s.Progress.InFlightBytes))},
		{"published", fmt.Sprintf("%d, last %s", s.Progress.Published, moment(s.Progress.LastPublished))},
		{"recognised in the topics", fmt.Sprint(s.Progress.Recognised)},
		{"dead letters", fmt.Sprint(s.Progress.DeadLettered)},
	}
	if slot := s.Slot; slot != nil {
		rows = append(rows,
			[2]string{"slot", fmt.Sprintf("%s behind the end of the WAL, %s retained, WAL %s, seen %s",
				sizeOrDash(slot.LagBytes), sizeOrDash(slot.RetainedBytes), slot.WALStatus, moment(s.SlotSeen))})
	}
	if s.HolderPID != 0 {
		rows = append(rows, [2]string{"slot held by", fmt.Sprintf("process %d of the server", s.HolderPID)})
	}
	if s.Session.ID != "" {
		rows = append(rows, [2]string{"session", fmt.Sprintf("%s, walsender %d, started %s, received %s, confirmed %s",
			s.Session.ID, s.Session.WALSenderPID, clock(s.Session.Started), pglogrepl.LSN(s.Session.Received), pglogrepl.LSN(s.Session.Confirmed))})
	}
	if ended := s.ended(); ended != "" {
		rows = append(rows, [2]string{"sessions ended", ended})
	}
	return append(rows, [2]string{"version", fmt.Sprintf("%s, started %s", s.Version, clock(s.Started))})
}

// ended says how sessions have ended so far.
func (s status) ended() string {
	var parts []string
	for reason, n := range s.Ended {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", reason, n))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// moment is clock, or "never".
func moment(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return clock(t)
}

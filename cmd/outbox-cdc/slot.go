package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/jackc/pglogrepl"
	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

func (p *program) slotCommand() *cli.Command {
	return &cli.Command{
		Name:  "slot",
		Usage: "manage the replication slot",
		Description: "A slot keeps the write-ahead log from where its reader has confirmed it. " +
			"One that nobody reads fills the disk of the server.",
		Subcommands: []*cli.Command{
			p.slotCreateCommand(),
			p.slotDropCommand(),
			p.slotListCommand(),
			p.slotShowCommand(),
			p.slotAdvanceCommand(),
		},
	}
}

// slotJSON is a slot with its positions as PostgreSQL writes them, and what our
// record adds. Numbers that are not known are null.
type slotJSON struct {
	replication.Slot
	Restart       lsnText     `json:"restart_lsn"`
	Confirmed     lsnText     `json:"confirmed_flush_lsn"`
	LagBytes      *int64      `json:"lag_bytes"`
	RetainedBytes *int64      `json:"retained_bytes"`
	LagSeconds    *float64    `json:"lag_seconds"`
	LagBound      string      `json:"lag_seconds_bound,omitempty"` // exact, at_least or at_most
	Record        *slotRecord `json:"record,omitempty"`

	lag lagTime
}

func newSlotJSON(s replication.Slot) slotJSON { return recordedSlot(s, nil) }

// recordedSlot is newSlotJSON for a slot that may have a record, nil if not.
func recordedSlot(s replication.Slot, r *slotRecord) slotJSON {
	v := slotJSON{Slot: s, Restart: lsnText(s.Restart), Confirmed: lsnText(s.Confirmed), Record: r, lag: lagOf(s, r)}
	if !s.Unmeasured {
		v.RetainedBytes = &v.Slot.RetainedBytes
		if s.Confirmed != 0 {
			v.LagBytes = &v.Slot.LagBytes
		}
	}
	if v.lag.bound != "" {
		seconds := v.lag.value.Seconds()
		v.LagSeconds, v.LagBound = &seconds, v.lag.bound
	}
	return v
}

// lsnText is an LSN that JSON has as text, such as "16/B374D848".
type lsnText pglogrepl.LSN

// MarshalText writes the LSN.
func (l lsnText) MarshalText() ([]byte, error) { return []byte(pglogrepl.LSN(l).String()), nil }

// String returns the LSN, or a dash for none.
func (l lsnText) String() string {
	if l == 0 {
		return "-"
	}
	return pglogrepl.LSN(l).String()
}

// safe is how much more the server keeps before it gives the slot up.
func (v slotJSON) safe() string {
	switch {
	case v.SafeWALBytes != nil:
		return sizeOf(*v.SafeWALBytes)
	case v.WALStatus == "lost" || v.WALStatus == "": // it keeps nothing
		return "-"
	}
	return "unlimited"
}

// holder is who reads the slot.
func (v slotJSON) holder() string {
	if v.ActivePID == 0 {
		return "-"
	}
	parts := []string{strconv.FormatUint(uint64(v.ActivePID), 10)}
	if c := v.Client; c != nil {
		for _, known := range []string{c.User, c.Address, c.Application} {
			if known != "" {
				parts = append(parts, cell(known))
			}
		}
	}
	return strings.Join(parts, " ")
}

// printSlots writes slots as a table, one a line. What may be long comes last.
func printSlots(out io.Writer, slots []slotJSON) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SLOT\tDATABASE\tWAL\tCONFIRMED\tLAG\tLAG TIME\tRETAINED\tSAFE\tHOLDER")
	for _, v := range slots {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Name, cell(v.Database), cell(v.WALStatus), v.Confirmed,
			sizeOrDash(v.LagBytes), v.lag, sizeOrDash(v.RetainedBytes), v.safe(), v.holder())
	}
	w.Flush()
}

func sizeOrDash(n *int64) string {
	if n == nil {
		return "-"
	}
	return sizeOf(*n)
}

// cell returns a text as a table can hold it: names may have any characters.
func cell(text string) string {
	switch {
	case text == "":
		return "-"
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return strconv.Quote(text)
	}
	return text
}

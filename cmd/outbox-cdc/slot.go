package main

import (
	"fmt"
	"text/tabwriter"

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

// slotJSON is a slot with its positions as PostgreSQL writes them.
type slotJSON struct {
	replication.Slot
	Restart   lsnText `json:"restart_lsn"`
	Confirmed lsnText `json:"confirmed_flush_lsn"`
}

func newSlotJSON(s replication.Slot) slotJSON {
	return slotJSON{Slot: s, Restart: lsnText(s.Restart), Confirmed: lsnText(s.Confirmed)}
}

// lsnText is an LSN that JSON has as text, such as "16/B374D848".
type lsnText pglogrepl.LSN

// MarshalText writes the LSN.
func (l lsnText) MarshalText() ([]byte, error) { return []byte(pglogrepl.LSN(l).String()), nil }

// printSlots writes slots as a table, one a line.
func (p *program) printSlots(slots []replication.Slot) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SLOT\tPLUGIN\tDATABASE\tHOLDER\tCONFIRMED\tLAG\tRETAINED\tSAFE\tWAL")
	for _, s := range slots {
		safe := "unlimited"
		if s.SafeWALBytes != nil {
			safe = sizeOf(*s.SafeWALBytes)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, orDash(s.Plugin), orDash(s.Database), holder(s),
			s.Confirmed, sizeOf(s.LagBytes), sizeOf(s.RetainedBytes), safe, orDash(s.WALStatus))
	}
	w.Flush()
}

func holder(s replication.Slot) string {
	if s.ActivePID == 0 {
		return "-"
	}
	return fmt.Sprint(s.ActivePID)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

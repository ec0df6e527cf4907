package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

func (p *program) publicationCommand() *cli.Command {
	return &cli.Command{
		Name:        "publication",
		Usage:       "manage the publication",
		Description: "A publication says which tables the server sends. It has to exist before the slot.",
		Subcommands: []*cli.Command{
			p.publicationCreateCommand(),
			p.publicationDropCommand(),
			p.publicationShowCommand(),
		},
	}
}

func (p *program) publicationCreateCommand() *cli.Command {
	return &cli.Command{
		Name:        "create",
		Usage:       "create the publication, or add the table to it",
		Description: "Nothing is ever taken away from a publication that exists.",
		UsageText:   `outbox-cdc publication create --table '"My-App"."OutBox"'`,
		Flags:       flags("o", "dsn", "publication", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				done, err := replication.CreatePublication(ctx, d.conn, d.Publication, d.Tables)
				if err != nil {
					return err
				}
				return p.print(c, publicationChange{d.Publication, append([]string{}, done...)}, func() {
					if len(done) == 0 {
						done = []string{fmt.Sprintf("publication %s has all it needs", d.Publication)}
					}
					fmt.Fprintln(p.out, strings.Join(done, "\n"))
				})
			})
		},
	}
}

// publicationChange is what was done to a publication.
type publicationChange struct {
	Publication string   `json:"publication"`
	Statements  []string `json:"statements"` // none if nothing was missing
}

func (p *program) publicationDropCommand() *cli.Command {
	return &cli.Command{
		Name:        "drop",
		Usage:       "drop the publication",
		Description: "A slot that is still read through it loses rows, or stands still for good.",
		UsageText:   "outbox-cdc publication drop --publication orders --yes",
		Flags:       flags("yes", "o", "dsn", "publication"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				if _, err := replication.ShowPublication(ctx, d.conn, d.Publication); err != nil {
					return err
				}
				what := fmt.Sprintf("without publication %q, slots that read it lose rows or stand still", d.Publication)
				if err := p.confirm(c, what); err != nil {
					return err
				}
				done, err := replication.DropPublication(ctx, d.conn, d.Publication)
				if err != nil {
					return err
				}
				return p.print(c, publicationChange{d.Publication, []string{done}}, func() {
					fmt.Fprintf(p.out, "publication %s dropped\n", d.Publication)
				})
			})
		},
	}
}

func (p *program) publicationShowCommand() *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "show what the publication publishes",
		Description: "Lists its tables, with the rows it is limited to, and whether it sends inserts, which are all that run needs.",
		UsageText:   "outbox-cdc publication show -o json",
		Flags:       flags("o", "dsn", "publication"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			return p.withDatabase(c, &s, func(ctx context.Context, d *database) error {
				pub, err := replication.ShowPublication(ctx, d.conn, d.Publication)
				if err != nil {
					return err
				}
				return p.print(c, pub, func() { p.printPublication(pub) })
			})
		},
	}
}

func (p *program) printPublication(pub replication.Publication) {
	var sends []string
	for _, kind := range []struct {
		name string
		on   bool
	}{{"insert", pub.Insert}, {"update", pub.Update}, {"delete", pub.Delete}, {"truncate", pub.Truncate}} {
		if kind.on {
			sends = append(sends, kind.name)
		}
	}
	fmt.Fprintf(p.out, "publication %s of %s sends %s\n", pub.Name, pub.Owner, strings.Join(sends, ", "))
	for _, t := range pub.Tables {
		line := "  table " + decoder.Table{Schema: t.Schema, Name: t.Name}.String()
		if t.RowFilter != "" {
			line += ", rows that match " + t.RowFilter
		}
		fmt.Fprintln(p.out, line)
	}
}

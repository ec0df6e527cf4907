package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/sql"
)

func (p *program) schemaCommand() *cli.Command {
	return &cli.Command{
		Name:        "schema",
		Usage:       "show the tables as SQL",
		Description: "For whoever creates tables with a migration of their own. What init does beside, --print-sql of init prints.",
		Subcommands: []*cli.Command{p.schemaPrintCommand()},
	}
}

func (p *program) schemaPrintCommand() *cli.Command {
	return &cli.Command{
		Name:  "print",
		Usage: "print the DDL of the outbox tables and the support tables",
		Description: "Connects to nothing. The support tables are in the schema of the first outbox table. " +
			"An outbox table that exists already needs no column that the preset does not name.",
		UsageText: "outbox-cdc schema print --preset event_store --partitions 16",
		Flags:     flags("full", "id-type", "partitions", "o", "table"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			outboxes, form := s.outboxes(), s.form()
			if err := s.err(); err != nil {
				return err
			}
			first := supportOf(s.database().Tables)
			schema := printedSchema{Tables: []printedTable{}, Support: []string{first.Checkpoint(), first.DeadLetters()}}
			for i, ddl := range tableDDL(outboxes, form) {
				schema.Tables = append(schema.Tables, printedTable{outboxes[i].Table.String(), outboxes[i].preset, ddl})
			}
			return p.print(c, schema, func() {
				fmt.Fprint(p.out, strings.Join(append(tableDDL(outboxes, form), schema.Support...), "\n"))
			})
		},
	}
}

// printedSchema is what schema print shows.
type printedSchema struct {
	Tables  []printedTable `json:"tables"`
	Support []string       `json:"support"`
}

type printedTable struct {
	Table  string `json:"table"` // as in SQL
	Preset string `json:"preset"`
	SQL    string `json:"sql"`
}

// maxPartitions is more than a table can do with.
const maxPartitions = 1024

// form reads how tables are to be created. An option that makes no difference to
// any of them is a fault.
func (s *settings) form() sql.Form {
	f := sql.Form{
		Full: s.on("full"), ID: s.c.String("id-type"), Partitions: int(s.number("partitions", maxPartitions)),
	}
	all := resolved(s.c).options
	var has sql.Options
	for _, t := range s.outboxes() {
		its := sql.Has(t.preset)
		has = sql.Options{Full: has.Full || its.Full, ID: has.ID || its.ID, Partitions: has.Partitions || its.Partitions}
	}
	idType := findOption(all, "id-type")
	if o := idType; !slices.Contains(o.choices, o.value) {
		s.fault("--id-type must be %s, got %q", strings.Join(o.choices, " or "), o.value)
	}
	for _, given := range []struct {
		name      string
		pointless bool
		presets   string
	}{
		{"full", f.Full && !has.Full, "outbox_events or outbox_messages"},
		{"id-type", idType.IsSet() && !has.ID, "outbox_events, outbox_messages or debezium"},
		{"partitions", f.Partitions > 0 && !has.Partitions, "event_store"},
	} {
		if given.pointless {
			s.fault("--%s is for tables of preset %s, and there is none; leave it out, or correct --preset", given.name, given.presets)
		}
	}
	return f
}

// ddl returns the statements that create the table.
func (t outboxTable) ddl(f sql.Form) string {
	f.Preset = t.preset
	return sql.Outbox{Schema: t.Schema, Name: t.Name}.Table(f)
}

// tableDDL returns the statements that create each table.
func tableDDL(outboxes []outboxTable, f sql.Form) []string {
	var parts []string
	for _, t := range outboxes {
		if t.custom {
			parts = append(parts, fmt.Sprintf("-- Table %s has columns of its own. Create it before what follows.\n", t.Table))
			continue
		}
		parts = append(parts, t.ddl(f))
	}
	return parts
}

// Package sql holds the DDL of outbox-cdc: the outbox table of each preset and the
// support tables, as text that can be executed or printed.
//
// Every statement is idempotent and names its objects in full, quoted, so that
// any identifier works and no search_path matters. The support tables live in
// the schema of the outbox table.
package sql

import (
	"embed"
	"strings"
	"text/template"

	"github.com/jackc/pgx/v5"
)

// Names of the support tables.
const (
	CheckpointTable  = "outbox_cdc_checkpoint"
	DeadLettersTable = "outbox_dead_letters"
)

//go:embed *.sql
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.sql"))

// Outbox names what the DDL is for.
type Outbox struct {
	// Schema and Name are those of the outbox table. The name is empty if there
	// is none, and nothing but support tables.
	Schema, Name string
	// Role and Database are for Grants alone: who runs outbox-cdc, and where.
	Role, Database string
}

// Table returns the statements that create the outbox table in a form. The preset
// of the form must be one that there is DDL for.
func (o Outbox) Table(f Form) string {
	data := tableData{outbox: o, Table: Qualified(o.Schema, o.Name), ID: f.id(), Partitions: make([]int, f.Partitions)}
	for i := range data.Partitions {
		data.Partitions[i] = i
	}
	return render(f.file(), data)
}

// Checkpoint returns the statement that creates the table of the gap-detection
// record.
func (o Outbox) Checkpoint() string { return o.render("checkpoint.sql") }

// DeadLetters returns the statement that creates the table of the dead
// letters.
func (o Outbox) DeadLetters() string { return o.render("dead_letters.sql") }

// Grants returns the statements that give Role what it needs to run.
func (o Outbox) Grants() string { return o.render("grants.sql") }

// Qualified returns the quoted name of a table in a schema.
func Qualified(schema, table string) string { return pgx.Identifier{schema, table}.Sanitize() }

func (o Outbox) render(name string) string {
	return render(name, map[string]string{
		"Name":        o.Name,
		"Table":       Qualified(o.Schema, o.Name),
		"Schema":      pgx.Identifier{o.Schema}.Sanitize(),
		"Checkpoint":  Qualified(o.Schema, CheckpointTable),
		"DeadLetters": Qualified(o.Schema, DeadLettersTable),
		"Role":        pgx.Identifier{o.Role}.Sanitize(),
		"Database":    pgx.Identifier{o.Database}.Sanitize(),
	})
}

func render(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic("sql: " + err.Error()) // the templates are part of the program
	}
	return b.String()
}

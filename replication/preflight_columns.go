package replication

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// columns are those of a table that are streamed. The slices but nullable go
// together.
type columns struct {
	names     []string
	types     []uint32 // OIDs
	typeNames []string
	nullable  []string // names of those that can be NULL
}

// checkColumns checks that a table has the columns that it is asked for, and
// that they will do.
func (c Config) checkColumns(t decoder.Table, found columns) error {
	if missing := t.MissingColumns(found.names); len(missing) > 0 {
		return fault(ErrSetup, "table %s has no column %s; add it to the table%s", t, strings.Join(missing, ", no column "), c.orCorrect(t))
	}
	if err := refuseNull(t, found.nullable); err != nil {
		return err
	}
	return c.refuseType(t, found)
}

// refuseNull refuses a table in which a column can be NULL that must not be.
func refuseNull(t decoder.Table, nullable []string) error {
	for _, n := range t.Needed {
		if n.NotNull && slices.Contains(nullable, n.Column) {
			return fault(ErrSetup, "column %q of table %s can be NULL, so %s cannot be column:%s; as its owner: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL, or correct %s",
				n.Column, t, n.By, n.Column, t, quoteIdentifier(n.Column), n.By)
		}
	}
	return nil
}

// nullWarnings warns of columns that can be NULL although there is no event
// without them.
func nullWarnings(t decoder.Table, found columns) []string {
	var all []string
	for _, f := range []decoder.Field{decoder.FieldID, decoder.FieldAggregateID} {
		for _, name := range t.Serving(f, found.names) {
			warning := fmt.Sprintf("column %q of table %s can be NULL, and a row in which it is cannot be published; as its owner: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL",
				name, t, t, quoteIdentifier(name))
			if slices.Contains(found.nullable, name) && !slices.Contains(all, warning) {
				all = append(all, warning)
			}
		}
	}
	return all
}

// refuseType refuses a table in which a column has a type from which that cannot
// be taken which is asked of it.
func (c Config) refuseType(t decoder.Table, found columns) error {
	for _, n := range t.Needed {
		i := -1
		for _, name := range t.Names(n) { // the first that is there counts
			if i = slices.Index(found.names, name); i >= 0 {
				break
			}
		}
		if len(n.Types) == 0 || i < 0 || slices.Contains(n.Types, found.types[i]) {
			continue
		}
		return fault(ErrSetup, "column %q of table %s is of type %s, and %s needs one of %s; as its owner: ALTER TABLE %s ALTER COLUMN %s TYPE ... USING ..., or correct %s%s",
			found.names[i], t, found.typeNames[i], n.By, typeNames(n.Types), t, quoteIdentifier(found.names[i]), n.By, c.orCorrect(t))
	}
	return nil
}

// typeNames lists types that every server has.
func typeNames(oids []uint32) string {
	types := pgtype.NewMap()
	var names []string
	for _, oid := range oids {
		if known, ok := types.TypeForOID(oid); ok {
			names = append(names, known.Name)
		}
	}
	return strings.Join(names, ", ")
}

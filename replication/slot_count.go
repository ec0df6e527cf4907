package replication

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Skipped are the rows that a slot would no longer send.
type Skipped struct {
	Tables []SkippedTable
	// Complete says that these are all; else there are more.
	Complete bool
	// Reason says why the rows were not counted, or not all of them.
	Reason string
}

// SkippedTable is a table as the stream names it.
type SkippedTable struct {
	Table string `json:"table"` // as decoder.Table.String gives it
	Rows  int64  `json:"rows"`
}

// Rows is how many there are in all tables.
func (s Skipped) Rows() (n int64) {
	for _, t := range s.Tables {
		n += t.Rows
	}
	return n
}

// CountSkipped counts the INSERTs that the slot would send through the
// publication up to lsn, without taking any of them. The server decodes its WAL
// for it, so it gives up after the time given; that, and what makes counting
// impossible, is told in the result.
func CountSkipped(ctx context.Context, conn *pgx.Conn, slot Slot, publication string, lsn pglogrepl.LSN, within time.Duration) (Skipped, error) {
	if lsn <= slot.Confirmed {
		return Skipped{Complete: true}, nil
	}
	// A server of version 18 skips the rows of a publication that is missing.
	if _, err := publicationOf(ctx, conn, publication); err != nil {
		return notCounted(ctx, err)
	}
	counting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var counted Skipped
	// More and more of them, so that something is known when time is up.
	for limit := int64(1000); ; limit *= 10 {
		more, err := peek(counting, conn, slot.Name, publication, lsn, limit)
		switch {
		case ctx.Err() != nil:
			return Skipped{}, context.Cause(ctx)
		case counting.Err() != nil:
			counted.Reason = fmt.Sprintf("not all could be counted in %s", within)
			return counted, nil
		case err != nil:
			return notCounted(ctx, err)
		case more.Complete:
			return more, nil
		}
		counted = more
	}
}

// notCounted is the result for an error that does not end the command.
func notCounted(ctx context.Context, err error) (Skipped, error) {
	if ctx.Err() != nil {
		return Skipped{}, context.Cause(ctx)
	}
	return Skipped{Reason: oneLine(err)}, nil
}

// peek counts the first messages of the slot, at least limit of them if there
// are so many.
func peek(ctx context.Context, conn *pgx.Conn, slot, publication string, lsn pglogrepl.LSN, limit int64) (Skipped, error) {
	// A Relation message ('R') has the OID, the schema and the name, and comes
	// before the Inserts ('I') with the same OID. Two identifiers of at most 63
	// bytes and their zeros follow the OID.
	rows, err := conn.Query(ctx, `SELECT get_byte(data, 0), encode(substring(data FROM 2 FOR 4), 'hex'),
  min(CASE WHEN get_byte(data, 0) = 82 THEN encode(substring(data FROM 6 FOR 128), 'hex') ELSE '' END), count(*)
FROM pg_logical_slot_peek_binary_changes($1, $2::text::pg_lsn, $3::int8::int4, 'proto_version', '1', 'publication_names', $4)
GROUP BY 1, 2`, slot, lsn.String(), limit, quoteIdentifier(publication))
	if err != nil {
		return Skipped{}, err
	}
	var (
		kind        rune
		oid, names  string
		n, messages int64
		tables      = make(map[string]string)
		inserts     = make(map[string]int64)
	)
	_, err = pgx.ForEachRow(rows, []any{&kind, &oid, &names, &n}, func() error {
		messages += n
		switch kind {
		case 'I':
			inserts[oid] += n
		case 'R':
			tables[oid] = relationName(names)
		}
		return nil
	})
	if err != nil {
		return Skipped{}, err
	}
	s := Skipped{Complete: messages < limit}
	for oid, n := range inserts {
		s.Tables = append(s.Tables, SkippedTable{Table: tables[oid], Rows: n})
	}
	slices.SortFunc(s.Tables, func(a, b SkippedTable) int { return cmp.Compare(a.Table, b.Table) })
	return s, nil
}

// relationName reads the two names of a Relation message.
func relationName(names string) string {
	raw, err := hex.DecodeString(names)
	if err != nil {
		return "?"
	}
	schema, rest, _ := bytes.Cut(raw, []byte{0})
	name, _, _ := bytes.Cut(rest, []byte{0})
	return decoder.Table{Schema: string(schema), Name: string(name)}.String()
}

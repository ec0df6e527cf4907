package replication

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Skipped are the rows and messages that a slot would no longer send.
type Skipped struct {
	Tables []SkippedTable
	// Messages is how many logical messages there are, if they are published.
	Messages int64
	// Complete says that these are all; else there are more.
	Complete bool
	// Reason says why they were not counted, or not all of them.
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
// publication up to lsn, and the transactional messages with the prefix if there
// is one, without taking any of them. The server decodes its WAL for it, so it
// gives up after the time given; that, and what makes counting impossible, is
// told in the result.
func CountSkipped(ctx context.Context, conn *pgx.Conn, cfg Config, slot Slot, lsn pglogrepl.LSN, within time.Duration) (Skipped, error) {
	if lsn <= slot.Confirmed {
		return Skipped{Complete: true}, nil
	}
	// A server of version 18 skips the rows of a publication that is missing.
	if _, err := publicationOf(ctx, conn, cfg.Publication); err != nil {
		return notCounted(ctx, err)
	}
	counting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var counted Skipped
	// More and more of them, so that something is known when time is up.
	for limit := int64(1000); ; limit *= 10 {
		more, err := cfg.peek(counting, conn, slot.Name, lsn, limit)
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
func (c Config) peek(ctx context.Context, conn *pgx.Conn, slot string, lsn pglogrepl.LSN, limit int64) (Skipped, error) {
	// A Relation message ('R') has the OID, the schema and the name, and comes
	// before the Inserts ('I') with the same OID. Two identifiers of at most 63
	// bytes and their zeros follow the OID. A logical message ('M') has a byte
	// that is 1 if it is transactional, its LSN, and its prefix with a zero.
	rows, err := conn.Query(ctx, `SELECT get_byte(data, 0),
  CASE get_byte(data, 0) WHEN 77 THEN (get_byte(data, 1) = 1 AND substring(data FROM 11 FOR octet_length($6::bytea)) = $6::bytea)::text
    ELSE encode(substring(data FROM 2 FOR 4), 'hex') END,
  min(CASE WHEN get_byte(data, 0) = 82 THEN encode(substring(data FROM 6 FOR 128), 'hex') ELSE '' END), count(*)
FROM pg_logical_slot_peek_binary_changes($1, $2::text::pg_lsn, $3::int8::int4, 'proto_version', '1', 'publication_names', $4, 'messages', $5)
GROUP BY 1, 2`, slot, lsn.String(), limit, quoteIdentifier(c.Publication), strconv.FormatBool(c.MessagePrefix != ""), append([]byte(c.MessagePrefix), 0))
	if err != nil {
		return Skipped{}, err
	}
	var (
		kind      rune
		of, names string // of which table, by its OID, or whether of our prefix
		n, all    int64
		ours      int64 // logical messages
		tables    = make(map[string]string)
		inserts   = make(map[string]int64)
	)
	_, err = pgx.ForEachRow(rows, []any{&kind, &of, &names, &n}, func() error {
		all += n
		switch kind {
		case 'I':
			inserts[of] += n
		case 'R':
			tables[of] = relationName(names)
		case 'M':
			if of == "true" {
				ours += n
			}
		}
		return nil
	})
	if err != nil {
		return Skipped{}, err
	}
	s := Skipped{Messages: ours, Complete: all < limit}
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

package replication

import (
	"fmt"
	"strconv"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// membership is how a publication publishes one table.
type membership struct {
	Table     decoder.Table // as it is called now
	Kind      string        // relkind
	Published bool          // its inserts, under its own name
	Columns   []string      // nil: all of them
	RowFilter string        // rows that do not match are not sent
	// Root is the schema and the name of the table of which it is a partition and
	// under whose name its rows go; empty if there is none.
	Root []string
}

// memberSQL asks the catalogs for one table. The view pg_publication_tables
// would open every table of the publication to answer.
//
// A table is in a publication by itself, by its schema, by any table that it is
// a partition of, or because all tables are. With publish_via_partition_root
// the rows go under the name of the topmost of those that are in it; without,
// under the name of the partition.
const memberSQL = `WITH p AS (SELECT oid, puballtables, pubinsert, pubviaroot FROM pg_publication WHERE pubname = $1),
line AS (SELECT $2::oid AS relid, 0 AS height
  UNION ALL SELECT relid, height FROM pg_partition_ancestors($2::oid::regclass) WITH ORDINALITY a(relid, height) WHERE relid <> $2::oid),
members AS (SELECT line.relid, line.height FROM line JOIN pg_class c ON c.oid = line.relid, p
  WHERE p.puballtables OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = line.relid)%s)
SELECT n.nspname, c.relname, c.relkind::text,
  coalesce((SELECT p.pubinsert AND c.relpersistence = 'p' AND CASE WHEN p.pubviaroot THEN (SELECT relid FROM members ORDER BY height DESC LIMIT 1) = c.oid
    ELSE c.relkind <> 'p' AND EXISTS (SELECT FROM members) END FROM p), false),
  %s,
  coalesce((SELECT ARRAY[rn.nspname::text, rc.relname::text] FROM members JOIN pg_class rc ON rc.oid = members.relid JOIN pg_namespace rn ON rn.oid = rc.relnamespace, p
    WHERE p.pubviaroot AND rc.oid <> c.oid ORDER BY members.height DESC LIMIT 1), '{}')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $2`

// The parts of memberSQL that PostgreSQL 14 does not have.
const (
	bySchemaSQL = ` OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)`
	listSQL     = `(SELECT ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (r.prattrs::int2[]) ORDER BY a.attnum)
    FROM pg_publication_rel r, p WHERE r.prpubid = p.oid AND r.prrelid = c.oid AND r.prattrs IS NOT NULL AND NOT p.puballtables),
  coalesce((SELECT pg_get_expr(r.prqual, r.prrelid) FROM pg_publication_rel r, p WHERE r.prpubid = p.oid AND r.prrelid = c.oid AND NOT p.puballtables), '')`
)

// memberQuestion asks a server of a version for a table, by its OID.
func memberQuestion(version int, publication string, oid uint32) question {
	sql := fmt.Sprintf(memberSQL, bySchemaSQL, listSQL)
	if version < 150000 {
		sql = fmt.Sprintf(memberSQL, "", "NULL::text[], ''")
	}
	return ask(sql, publication, strconv.FormatUint(uint64(oid), 10))
}

// memberIn reads the answer. A table that does not exist is pgx.ErrNoRows.
func memberIn(found answer, oid uint32) (membership, error) {
	m := membership{Table: decoder.Table{OID: oid}}
	err := found.scan(&m.Table.Schema, &m.Table.Name, &m.Kind, &m.Published, &m.Columns, &m.RowFilter, &m.Root)
	return m, err
}

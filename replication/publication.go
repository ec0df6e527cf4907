package replication

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// Publication is the state of a publication.
type Publication struct {
	Name      string           `json:"name"`
	Owner     string           `json:"owner"`
	AllTables bool             `json:"all_tables"`
	Insert    bool             `json:"insert"`
	Update    bool             `json:"update"`
	Delete    bool             `json:"delete"`
	Truncate  bool             `json:"truncate"`
	ViaRoot   bool             `json:"via_partition_root"`
	Tables    []PublishedTable `json:"tables"`
}

// PublishedTable is a table as a publication publishes it.
type PublishedTable struct {
	Schema    string   `json:"schema"`
	Name      string   `json:"name"`
	Columns   []string `json:"columns,omitempty"`    // nil before PostgreSQL 15: all of them
	RowFilter string   `json:"row_filter,omitempty"` // rows that do not match are not sent
}

// table returns how the publication publishes t.
func (p Publication) table(t decoder.Table) (PublishedTable, bool) {
	for _, pt := range p.Tables {
		if pt.Schema == t.Schema && pt.Name == t.Name {
			return pt, true
		}
	}
	return PublishedTable{}, false
}

// errNoPublication is a publication that does not exist, in a command that
// needs it.
func errNoPublication(name string) *Fault {
	return fault(ErrSetup, "publication %q does not exist; create it with \"outbox-cdc publication create --publication %s\"", name, name)
}

// publicationOf returns the state of a publication but for its tables. One that
// does not exist is a fault of kind ErrSetup.
func publicationOf(ctx context.Context, conn *pgx.Conn, name string) (Publication, error) {
	return publicationIn(ask(publicationSQL, name).on(ctx, conn), name)
}

const publicationSQL = `SELECT pg_get_userbyid(pubowner), puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot
FROM pg_publication WHERE pubname = $1`

// publicationIn reads the answer to publicationSQL.
func publicationIn(found answer, name string) (Publication, error) {
	p := Publication{Name: name, Tables: []PublishedTable{}}
	err := found.scan(&p.Owner, &p.AllTables, &p.Insert, &p.Update, &p.Delete, &p.Truncate, &p.ViaRoot)
	if err == pgx.ErrNoRows {
		return Publication{}, errNoPublication(name)
	}
	if err != nil {
		return Publication{}, fmt.Errorf("read publication %q: %w", name, err)
	}
	return p, nil
}

// ShowPublication returns the state of a publication. One that does not exist
// is a fault of kind ErrSetup.
func ShowPublication(ctx context.Context, conn *pgx.Conn, name string) (Publication, error) {
	p, err := publicationOf(ctx, conn, name)
	if err != nil {
		return Publication{}, err
	}
	// The columns and the filter, since PostgreSQL 15, are taken out of the
	// row as JSON, so that one query serves all versions.
	rows, err := conn.Query(ctx, `SELECT t.schemaname, t.tablename, coalesce(to_jsonb(t)->>'rowfilter', ''),
  CASE WHEN to_jsonb(t) ? 'attnames' THEN ARRAY(SELECT jsonb_array_elements_text(to_jsonb(t)->'attnames')) END
FROM pg_publication_tables t WHERE t.pubname = $1 ORDER BY 1, 2`, name)
	if err != nil {
		return Publication{}, fmt.Errorf("read the tables of publication %q: %w", name, err)
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t PublishedTable, err error) {
		err = row.Scan(&t.Schema, &t.Name, &t.RowFilter, &t.Columns)
		return t, err
	})
	if err != nil {
		return Publication{}, fmt.Errorf("read the tables of publication %q: %w", name, err)
	}
	p.Tables = append(p.Tables, tables...)
	return p, nil
}

// CreatePublication makes sure that the publication exists, publishes inserts
// and holds the tables. It never takes anything away from a publication that
// exists. It returns the statements that it executed: none if nothing was
// missing.
func CreatePublication(ctx context.Context, conn *pgx.Conn, name string, tables []decoder.Table) ([]string, error) {
	if err := ValidatePublicationName(name); err != nil {
		return nil, err
	}
	var done []string
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		p, err := ShowPublication(ctx, tx.Conn(), name)
		missing := isMissing(err)
		if err != nil && !missing {
			return err
		}
		for _, sql := range publicationStatements(p, missing, name, tables) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return publicationFault(name, err)
			}
			done = append(done, sql)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// PublicationSQL returns the statement that creates the publication for the
// tables, if there are any.
func PublicationSQL(name string, tables []decoder.Table) string {
	// Only inserts: updates and deletes would cost traffic for nothing, and a
	// table without a primary key could not be updated any more. Via the root:
	// the rows of a partition arrive as the table's.
	list := ""
	if len(tables) > 0 {
		list = " FOR TABLE " + tableList(tables)
	}
	return fmt.Sprintf("CREATE PUBLICATION %s%s WITH (publish = 'insert', publish_via_partition_root = true)", quoteIdentifier(name), list)
}

func publicationStatements(p Publication, missing bool, name string, tables []decoder.Table) []string {
	if missing {
		return []string{PublicationSQL(name, tables)}
	}
	var statements []string
	var absent []decoder.Table
	for _, t := range tables {
		if _, ok := p.table(t); !ok {
			absent = append(absent, t)
		}
	}
	if len(absent) > 0 && !p.AllTables {
		statements = append(statements, fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s", quoteIdentifier(name), tableList(absent)))
	}
	if !p.Insert {
		statements = append(statements, fmt.Sprintf("ALTER PUBLICATION %s SET (publish = '%s')", quoteIdentifier(name), p.withInsert()))
	}
	return statements
}

// withInsert returns what the publication publishes, and inserts.
func (p Publication) withInsert() string {
	kinds := []string{"insert"}
	for _, k := range []struct {
		name string
		on   bool
	}{{"update", p.Update}, {"delete", p.Delete}, {"truncate", p.Truncate}} {
		if k.on {
			kinds = append(kinds, k.name)
		}
	}
	return strings.Join(kinds, ", ")
}

func tableList(tables []decoder.Table) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.String()
	}
	return strings.Join(names, ", ")
}

// DropPublication drops a publication and returns the statement that it
// executed.
func DropPublication(ctx context.Context, conn *pgx.Conn, name string) (string, error) {
	sql := "DROP PUBLICATION " + quoteIdentifier(name)
	_, err := conn.Exec(ctx, sql)
	if isCode(err, "42704") {
		return "", errNoPublication(name)
	}
	if err != nil {
		return "", publicationFault(name, err)
	}
	return sql, nil
}

func publicationFault(name string, err error) error {
	switch {
	case isCode(err, "42501"):
		return fault(ErrDenied, "publication %q was not changed; it takes the owner of the tables, and CREATE on the database", name).because(err)
	case isCode(err, "42P01", "3F000"):
		return fault(ErrSetup, "publication %q was not changed, a table does not exist; create it first, for instance with \"outbox-cdc init\"", name).because(err)
	case isCode(err, "22023", "42809"):
		return fault(ErrSetup, "publication %q was not changed, a table cannot be published", name).because(err)
	}
	return fmt.Errorf("change publication %q: %w", name, err)
}

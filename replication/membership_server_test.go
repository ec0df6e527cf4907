//go:build linux || darwin

package replication

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestMemberAgreesWithTheServer asks for every table of a database and every
// publication, and compares with what the server says in its view.
func TestMemberAgreesWithTheServer(t *testing.T) {
	pg := harness.SharedPostgres(t)
	o := newDatabase(t, pg)
	o.exec(`CREATE SCHEMA "My-App";
CREATE TABLE plain (a int, b int); CREATE UNLOGGED TABLE unlogged (a int, b int); CREATE TABLE "My-App"."It's" (a int, b int);
CREATE TABLE root (a int, b int) PARTITION BY LIST (a);
CREATE TABLE "My-App".middle PARTITION OF root FOR VALUES IN (1) PARTITION BY LIST (b);
CREATE TABLE leaf PARTITION OF "My-App".middle FOR VALUES IN (1);
CREATE TABLE other_leaf PARTITION OF root DEFAULT;
CREATE TABLE lone_root (a int, b int) PARTITION BY LIST (a)`)
	what := []string{
		"", "FOR ALL TABLES", "FOR TABLE plain", "FOR TABLE root", "FOR TABLE leaf", `FOR TABLE "My-App".middle`, `FOR TABLE "My-App".middle, root`,
		`FOR TABLE leaf, "My-App".middle, plain`, "FOR TABLE root, other_leaf", `FOR TABLE "My-App"."It's", lone_root`,
	}
	if pg.Version() >= 15 {
		what = append(what, `FOR TABLES IN SCHEMA "My-App"`, "FOR TABLES IN SCHEMA public", `FOR TABLES IN SCHEMA "My-App", public`,
			`FOR TABLE root, TABLES IN SCHEMA "My-App"`, "FOR TABLE plain (b) WHERE (b > 0)", "FOR TABLE root (a) WHERE (a > 0)")
	}
	var publications []string
	for i, objects := range what {
		for _, viaRoot := range []bool{false, true} {
			name := fmt.Sprintf("p%d %t", i, viaRoot)
			// A filter of a root needs the rows to go by way of it.
			if objects == "FOR TABLE root (a) WHERE (a > 0)" && !viaRoot {
				continue
			}
			o.exec(fmt.Sprintf("CREATE PUBLICATION %s %s WITH (publish_via_partition_root = %t)", quoteIdentifier(name), objects, viaRoot))
			publications = append(publications, name)
		}
	}
	tables := map[uint32]string{}
	var oid uint32
	var name string
	rows, err := o.conn.Query(t.Context(), "SELECT oid, relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace IN ('public'::regnamespace, '\"My-App\"'::regnamespace)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.ForEachRow(rows, []any{&oid, &name}, func() error { tables[oid] = name; return nil }); err != nil {
		t.Fatal(err)
	}
	if len(tables) != 8 {
		t.Fatalf("got %d tables", len(tables))
	}
	version, err := serverVersion(t.Context(), o.conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, publication := range publications {
		pub, err := ShowPublication(t.Context(), o.conn, publication)
		if err != nil {
			t.Fatal(err)
		}
		for oid, name := range tables {
			m, err := memberIn(memberQuestion(version, publication, oid).on(t.Context(), o.conn), oid)
			if err != nil {
				t.Fatal(err)
			}
			want, published := pub.table(m.Table)
			if m.Published != published {
				t.Errorf("table %s in publication %s: got published = %t, want %t", name, publication, m.Published, published)
				continue
			}
			if !published {
				continue
			}
			if m.RowFilter != want.RowFilter {
				t.Errorf("table %s in publication %s: got the filter %q, want %q", name, publication, m.RowFilter, want.RowFilter)
			}
			if m.Columns != nil && fmt.Sprint(m.Columns) != fmt.Sprint(want.Columns) {
				t.Errorf("table %s in publication %s: got the columns %q, want %q", name, publication, m.Columns, want.Columns)
			}
			if m.Columns == nil && want.Columns != nil && len(want.Columns) == 1 {
				t.Errorf("table %s in publication %s: got all columns, want %q", name, publication, want.Columns)
			}
		}
	}
}

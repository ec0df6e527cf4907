//go:build linux || darwin

package integration

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
)

// aggregates is over how many aggregates of each type rows are spread.
const aggregates = 40

// row is what a test may say about a row; what it leaves out is chosen.
type row struct {
	number        int64
	aggregateType string
	aggregateID   string
	payload       any // JSON text, or nil for NULL
}

// newRow returns a row with the next number.
func (o *outbox) newRow() row {
	n := o.ledger.take(1)
	return row{
		number:        n,
		aggregateType: o.config.types[n%int64(len(o.config.types))],
		aggregateID:   fmt.Sprintf("a%d", n%aggregates),
		payload:       fmt.Sprintf(`{"number": %d}`, n),
	}
}

// rowOf returns a row of an aggregate type.
func (o *outbox) rowOf(aggregateType string) row {
	r := o.newRow()
	r.aggregateType = aggregateType
	return r
}

// columns are the ones that writers fill, in the order of values.
var columns = []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"}

func (r row) values() []any {
	return []any{idOf(r.number), r.aggregateType, r.aggregateID, "created", r.payload}
}

// transaction is an open transaction on a connection of its own. It tells the
// ledger what becomes of its rows. Errors end the test.
type transaction struct {
	o          *outbox
	conn       *pgx.Conn
	inserted   []int64 // not rolled back so far
	savepoints map[string]int
}

// begin opens a transaction.
func (o *outbox) begin() *transaction {
	o.t.Helper()
	conn, err := o.pg.Connect(o.t.Context(), o.database)
	if err != nil {
		o.t.Fatal(err)
	}
	tx := &transaction{o: o, conn: conn, savepoints: make(map[string]int)}
	tx.exec("BEGIN")
	return tx
}

// exec executes any statement in the transaction.
func (tx *transaction) exec(sql string, args ...any) {
	tx.o.t.Helper()
	if _, err := tx.conn.Exec(tx.o.t.Context(), sql, args...); err != nil {
		tx.o.t.Fatalf("%s: %v", sql, err)
	}
}

// insert inserts n rows, one statement each.
func (tx *transaction) insert(n int) {
	tx.o.t.Helper()
	for range n {
		tx.insertRow(tx.o.newRow())
	}
}

func (tx *transaction) insertRow(r row) {
	tx.o.t.Helper()
	tx.exec(insertStatement(tx.o.table), r.values()...)
	tx.inserted = append(tx.inserted, r.number)
}

// bulk inserts n rows with payloads of about so many bytes in one statement.
// A payload does not compress well, but it is much like the next one.
func (tx *transaction) bulk(n, payloadBytes int) {
	tx.o.t.Helper()
	first := tx.o.ledger.take(n)
	tx.exec(fmt.Sprintf(`INSERT INTO %s (%s)
		SELECT ('%s' || lpad(to_hex(n), 12, '0'))::uuid, ($3::text[])[1 + n %% cardinality($3::text[])], 'a' || n %% %d, 'created',
			jsonb_build_object('number', n, 'padding', $4::text)
		FROM generate_series($1::bigint, $2::bigint) AS n`, tx.o.table, strings.Join(columns, ", "), idPrefix, aggregates),
		first, first+int64(n)-1, tx.o.config.types, padding(payloadBytes))
	for i := range int64(n) {
		tx.inserted = append(tx.inserted, first+i)
	}
}

// padding returns so many hex digits that do not compress well.
func padding(digits int) string {
	random := rand.NewChaCha8([32]byte{1})
	b := make([]byte, digits/2)
	_, _ = random.Read(b) // never fails
	return hex.EncodeToString(b)
}

// copy inserts n rows by COPY.
func (tx *transaction) copy(n int) {
	tx.o.t.Helper()
	var rows [][]any
	var numbers []int64
	for range n {
		r := tx.o.newRow()
		rows, numbers = append(rows, r.values()), append(numbers, r.number)
	}
	table := pgx.Identifier(strings.Split(strings.ReplaceAll(tx.o.table, `"`, ""), "."))
	if _, err := tx.conn.CopyFrom(tx.o.t.Context(), table, columns, pgx.CopyFromRows(rows)); err != nil {
		tx.o.t.Fatalf("copy: %v", err)
	}
	tx.inserted = append(tx.inserted, numbers...)
}

// savepoint marks the place that rollbackTo returns to.
func (tx *transaction) savepoint(name string) {
	tx.o.t.Helper()
	tx.exec("SAVEPOINT " + name)
	tx.savepoints[name] = len(tx.inserted)
}

func (tx *transaction) rollbackTo(name string) {
	tx.o.t.Helper()
	tx.exec("ROLLBACK TO SAVEPOINT " + name)
	at := tx.savepoints[name]
	tx.o.ledger.note(rolledBack, tx.inserted[at:]...)
	tx.inserted = tx.inserted[:at]
}

// commit commits and closes the connection.
func (tx *transaction) commit() { tx.o.t.Helper(); tx.end("COMMIT", committed) }

// rollback rolls back and closes the connection.
func (tx *transaction) rollback() { tx.o.t.Helper(); tx.end("ROLLBACK", rolledBack) }

func (tx *transaction) end(statement string, what outcome) {
	tx.o.t.Helper()
	tx.exec(statement)
	tx.o.ledger.note(what, tx.inserted...)
	_ = tx.conn.Close(tx.o.t.Context())
}

// insert commits n rows, each in a transaction of its own.
func (o *outbox) insert(n int) {
	o.t.Helper()
	conn, err := o.pg.Connect(o.t.Context(), o.database)
	if err != nil {
		o.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(o.t.Context()))
	for range n {
		o.insertRowOn(conn, o.newRow())
	}
}

// insertRow commits one row of the test's choice.
func (o *outbox) insertRow(r row) {
	o.t.Helper()
	conn, err := o.pg.Connect(o.t.Context(), o.database)
	if err != nil {
		o.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(o.t.Context()))
	o.insertRowOn(conn, r)
}

func (o *outbox) insertRowOn(conn *pgx.Conn, r row) {
	o.t.Helper()
	if err := insertRows(o.t.Context(), conn, o.table, r); err != nil {
		o.t.Fatal(err)
	}
	o.ledger.note(committed, r.number)
}

// insertStatement is the INSERT of one row's values.
func insertStatement(table string) string {
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES ($1, $2, $3, $4, $5)", table, strings.Join(columns, ", "))
}

// insertRows inserts rows by whatever transaction the connection is in.
func insertRows(ctx context.Context, conn *pgx.Conn, table string, rows ...row) error {
	for _, r := range rows {
		if _, err := conn.Exec(ctx, insertStatement(table), r.values()...); err != nil {
			return err
		}
	}
	return nil
}

// insertBatch commits n rows in one transaction.
func (o *outbox) insertBatch(n int) {
	o.t.Helper()
	tx := o.begin()
	tx.bulk(n, 64)
	tx.commit()
}

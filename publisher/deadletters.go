package publisher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/sql"
)

// DeadLetters keeps dead letters in the table outbox_dead_letters, next to the
// outbox. It has a connection of its own, since a commit may hang on a
// synchronous standby, and opens it again after a failure. Any goroutine may
// use it.
type DeadLetters struct {
	open func(context.Context) (*pgx.Conn, error)
	slot string
	// table is the name as in SQL.
	table string

	// turn holds one token; who has it may use conn.
	turn chan struct{}
	conn *pgx.Conn // nil until it is needed, and after a failure
}

// NewDeadLetters returns the dead letters of a slot, in the table in schema.
// Each connection comes from open.
func NewDeadLetters(open func(context.Context) (*pgx.Conn, error), schema, slot string) *DeadLetters {
	d := &DeadLetters{open: open, slot: slot, table: sql.Qualified(schema, sql.DeadLettersTable), turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d
}

// Check finds out, on any connection of the role, whether dead letters can be
// stored. A table or a right that is missing is a *Fault.
func (d *DeadLetters) Check(ctx context.Context, conn *pgx.Conn) error {
	var exists, may bool
	err := conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL,
  coalesce(has_table_privilege(to_regclass($1), 'SELECT') AND has_table_privilege(to_regclass($1), 'INSERT'), false)`, d.table).Scan(&exists, &may)
	const otherwise = `or run with --on-poison halt`
	switch {
	case err != nil:
		return fmt.Errorf("look up table %s: %w", d.table, err)
	case !exists:
		return fault(ErrSetup, nil, `table %s does not exist, but --on-poison dead-letter stores events there; create it with "outbox-cdc init", %s`, d.table, otherwise)
	case !may:
		return fault(ErrDenied, nil, "no right to store dead letters in table %s; as its owner: GRANT SELECT, INSERT ON %s TO %s, %s",
			d.table, d.table, pgx.Identifier{conn.Config().User}.Sanitize(), otherwise)
	}
	return nil
}

// Store is a StoreDeadLetter.
func (d *DeadLetters) Store(ctx context.Context, letter DeadLetter) error {
	columns, err := columnsJSON(letter.Row)
	if err != nil {
		return fmt.Errorf("write the columns of a dead letter as JSON: %w", err)
	}
	p := letter.Position
	return d.use(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "INSERT INTO "+d.table+` (slot, position, commit_lsn, commit_time, table_name, event_id, topic, reason, error, columns)
VALUES ($1, $2, $3::text::pg_lsn, $4, $5, $6, $7, $8, $9, $10::text::json) ON CONFLICT (slot, position) DO NOTHING`,
			d.slot, p.String(), p.CommitLSN.String(), time.UnixMicro(p.CommitTime),
			letter.Row.Relation().Table.String(), orNull(letter.Row.Field(decoder.FieldID)), orNull([]byte(letter.Topic)),
			string(letter.Poison.Reason), strings.ToValidUTF8(letter.Poison.Err.Error(), "?"), string(columns))
		if err != nil {
			return fmt.Errorf("store a dead letter in %s: %w", d.table, err)
		}
		return nil
	})
}

// Close closes the connection. It is called once, when nothing else is.
func (d *DeadLetters) Close() {
	<-d.turn
	d.drop()
}

// use runs f with the connection in hand.
func (d *DeadLetters) use(ctx context.Context, f func(*pgx.Conn) error) error {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { d.turn <- struct{}{} }()
	if d.conn == nil {
		if err := d.connect(ctx); err != nil {
			return err
		}
	}
	err := f(d.conn)
	var missing *Fault
	if err != nil && !errors.As(err, &missing) {
		d.drop() // it may be in any state
	}
	return err
}

func (d *DeadLetters) connect(ctx context.Context) error {
	conn, err := d.open(ctx)
	if err != nil {
		return err
	}
	d.conn = conn
	// A role or database default must not make a stored letter less than
	// durable: its event is confirmed on the strength of it.
	if _, err := conn.Exec(ctx, "SET synchronous_commit = on"); err != nil {
		d.drop()
		return fmt.Errorf("set synchronous_commit: %w", err)
	}
	return nil
}

func (d *DeadLetters) drop() {
	if d.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	d.conn.Close(ctx)
	d.conn = nil
}

// orNull returns a text, or NULL for an empty one.
func orNull(text []byte) *string {
	if len(text) == 0 {
		return nil
	}
	s := string(text)
	return &s
}

// columnsJSON returns all columns of a row as an object of texts, in the order
// of the table.
func columnsJSON(row decoder.Row) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for column, value := range row.Columns {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		if err := appendJSON(&b, column.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		var text any // null
		if value != nil {
			text = string(value)
		}
		if err := appendJSON(&b, text); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// appendJSON writes one value, without the escapes that only HTML needs and
// without the encoder's newline.
func appendJSON(b *bytes.Buffer, value any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1)
	return nil
}

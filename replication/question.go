package replication

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// question is a statement with parameters in text form. It is not prepared, so
// that it costs one round trip.
type question struct {
	sql    string
	params []string
}

func ask(sql string, params ...string) question { return question{sql, params} }

func (q question) values() [][]byte {
	values := make([][]byte, len(q.params))
	for i, p := range q.params {
		values[i] = []byte(p)
	}
	return values
}

// answer is what a question has brought.
type answer struct {
	result *pgconn.Result
	types  *pgtype.Map
}

// on asks q alone.
func (q question) on(ctx context.Context, conn *pgx.Conn) answer {
	return answer{conn.PgConn().ExecParams(ctx, q.sql, q.values(), nil, nil, nil).Read(), conn.TypeMap()}
}

// askTogether asks several questions in one round trip. If one of them fails,
// which takes the ones behind it with it, each is asked alone: every answer is
// its own.
func askTogether(ctx context.Context, conn *pgx.Conn, questions ...question) []answer {
	batch := &pgconn.Batch{}
	for _, q := range questions {
		batch.ExecParams(q.sql, q.values(), nil, nil, nil)
	}
	results, err := conn.PgConn().ExecBatch(ctx, batch).ReadAll()
	answers := make([]answer, len(questions))
	for i, q := range questions {
		if err == nil && len(results) == len(questions) {
			answers[i] = answer{results[i], conn.TypeMap()}
		} else {
			answers[i] = q.on(ctx, conn)
		}
	}
	return answers
}

// scan reads the first row. Without any it is pgx.ErrNoRows.
func (a answer) scan(into ...any) error {
	switch {
	case a.result.Err != nil:
		return a.result.Err
	case len(a.result.Rows) == 0:
		return pgx.ErrNoRows
	}
	for i, column := range a.result.FieldDescriptions {
		if err := a.types.Scan(column.DataTypeOID, column.Format, a.result.Rows[0][i], into[i]); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/replication"
	"github.com/outbox-cdc/outbox-cdc/sql"
)

// support names the first table, in whose schema the support tables are, for
// their DDL.
func (in *initialization) support() sql.Outbox {
	o := supportOf(in.Tables)
	o.Role, o.Database = in.role, in.conn.Config().Database
	return o
}

func (in *initialization) createTables(ctx context.Context) error {
	for _, t := range in.outboxes {
		if err := in.createOutbox(ctx, t); err != nil {
			return err
		}
		if err := in.checkColumns(ctx, t); err != nil {
			return err
		}
	}
	o := in.support()
	if err := in.createTable(ctx, sql.Qualified(o.Schema, sql.CheckpointTable), o.Checkpoint()); err != nil {
		return err
	}
	return in.createTable(ctx, sql.Qualified(o.Schema, sql.DeadLettersTable), o.DeadLetters())
}

func (in *initialization) createOutbox(ctx context.Context, t outboxTable) error {
	if !t.custom {
		return in.createTable(ctx, t.Table.String(), t.ddl(in.form))
	}
	exists, err := in.exists(ctx, t.Table.String())
	if err != nil {
		return err
	}
	if !exists {
		return &replication.Fault{Kind: replication.ErrSetup,
			Message: fmt.Sprintf("table %s does not exist, and init cannot create one with columns of your own; create it first, or correct %s", t.Table, t.place.Name)}
	}
	in.step("table", t.Table.String(), "exists")
	return nil
}

// createTable looks first: IF NOT EXISTS asks for the right to create a table
// even where there is nothing to create.
func (in *initialization) createTable(ctx context.Context, name, ddl string) error {
	exists, err := in.exists(ctx, name)
	if err != nil {
		return err
	}
	if exists {
		in.step("table", name, "exists")
		return nil
	}
	if _, err := in.conn.Exec(ctx, ddl); err != nil {
		return setupFault("create table "+name, err)
	}
	in.step("table", name, "created")
	return nil
}

func (in *initialization) exists(ctx context.Context, name string) (exists bool, err error) {
	if err := in.conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&exists); err != nil {
		return false, setupFault("look up table "+name, err)
	}
	return exists, nil
}

// checkColumns refuses an outbox table that exists and lacks what run needs.
func (in *initialization) checkColumns(ctx context.Context, t outboxTable) error {
	rows, err := in.conn.Query(ctx, "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped", t.Table.String())
	if err != nil {
		return fmt.Errorf("read the columns of table %s: %w", t.Table, err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read the columns of table %s: %w", t.Table, err)
	}
	if missing := t.MissingColumns(columns); len(missing) > 0 {
		where := "name another table with --table"
		if t.place.Columns != "" {
			where = "correct " + t.place.Columns
		}
		return &replication.Fault{Kind: replication.ErrSetup,
			Message: fmt.Sprintf("table %s exists and has no column %s; add it, or %s", t.Table, strings.Join(missing, ", no column "), where)}
	}
	return nil
}

func (in *initialization) createPublication(ctx context.Context) error {
	done, err := replication.CreatePublication(ctx, in.conn, in.Publication, in.Tables)
	if err != nil {
		return err
	}
	name := pgx.Identifier{in.Publication}.Sanitize()
	if len(done) == 0 {
		in.step("publication", name, "exists")
		return nil
	}
	for _, statement := range done {
		in.step("publication", name, statement)
	}
	if slot, err := in.findSlot(ctx); err != nil || slot == nil {
		return err
	}
	in.note(fmt.Sprintf("slot %q is older than this change of the publication: rows committed before it are not published, "+
		"and PostgreSQL may refuse to decode them; if run says so, drop the slot and run init again", in.Slot))
	return nil
}

func (in *initialization) createSlot(ctx context.Context) error {
	slot, err := in.findSlot(ctx)
	if err != nil {
		return err
	}
	record, err := in.record(ctx)
	if err != nil {
		return err
	}
	if slot != nil {
		in.step("slot", in.Slot, "exists")
		if record != nil {
			return nil
		}
		return in.accept(ctx, *slot, false)
	}
	before, err := in.countRows(ctx)
	if err != nil {
		return err
	}
	created, err := in.newSlot(ctx, in.slotOptions)
	if err != nil {
		return err
	}
	in.step("slot", in.Slot, "created at "+created.Confirmed.String())
	if err := in.tellOlder(ctx, before); err != nil {
		return err
	}
	if record != nil {
		in.note(fmt.Sprintf("slot %q existed before and had confirmed %s; rows committed between that and %s are not published",
			in.Slot, record.Confirmed, created.Confirmed))
	}
	return in.accept(ctx, created, true)
}

// countRows counts the rows of each table.
func (in *initialization) countRows(ctx context.Context) ([]int64, error) {
	counts := make([]int64, len(in.Tables))
	for i, t := range in.Tables {
		if err := in.conn.QueryRow(ctx, "SELECT count(*) FROM "+t.String()).Scan(&counts[i]); err != nil {
			return nil, fmt.Errorf("count the rows of table %s: %w", t, err)
		}
	}
	return counts, nil
}

// tellOlder says how many rows are older than the slot. Which of those that were
// committed while it was created are, only the slot knows.
func (in *initialization) tellOlder(ctx context.Context, before []int64) error {
	after, err := in.countRows(ctx)
	if err != nil {
		return err
	}
	for i, t := range in.Tables {
		older := fmt.Sprint(before[i])
		if after[i] > before[i] {
			older += " to " + fmt.Sprint(after[i])
		}
		if after[i] > 0 {
			in.note(fmt.Sprintf("rows of table %s that are older than slot %q and not published: %s", t, in.Slot, older))
		}
	}
	return nil
}

// grant gives the role what run needs.
func (in *initialization) grant(ctx context.Context) error {
	if in.role == "" {
		return nil
	}
	statements := grants(in.support(), in.Tables)
	if _, err := in.conn.Exec(ctx, statements); err != nil {
		return setupFault("grant rights to role "+pgx.Identifier{in.role}.Sanitize(), err)
	}
	in.step("role", pgx.Identifier{in.role}.Sanitize(), "granted")
	// Amazon's service gives the right to replicate by membership.
	var may bool
	err := in.conn.QueryRow(ctx, `SELECT rolreplication OR rolsuper OR EXISTS (
  SELECT FROM pg_roles g WHERE g.rolname = 'rds_replication' AND pg_has_role(r.oid, g.oid, 'MEMBER'))
FROM pg_roles r WHERE rolname = $1`, in.role).Scan(&may)
	if err != nil {
		return fmt.Errorf("look up role %q: %w", in.role, err)
	}
	if !may {
		in.note(fmt.Sprintf("role %q has no REPLICATION attribute, nor is it a member of rds_replication; "+
			"run needs it: as a superuser, ALTER ROLE %s REPLICATION", in.role, pgx.Identifier{in.role}.Sanitize()))
	}
	return nil
}

// grants returns the statements that give the role what run needs. The support
// tables are in the schema of the first table.
func grants(o sql.Outbox, tables []decoder.Table) string {
	role := pgx.Identifier{o.Role}.Sanitize()
	statements := o.Grants()
	for _, t := range tables[min(1, len(tables)):] {
		statements += fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;\nGRANT SELECT ON %s TO %s;\n", pgx.Identifier{t.Schema}.Sanitize(), role, t, role)
	}
	return statements
}

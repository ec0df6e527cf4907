package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// minVersion is PostgreSQL 14.
const minVersion = 140000

// Server is what Preflight has found out.
type Server struct {
	SystemID         string
	Timeline         int32
	Version          int           // server_version_num
	WALSenderTimeout time.Duration // of our sessions; 0 if the server has none
	WALEnd           pglogrepl.LSN
	Slot             Slot
	Tables           []decoder.Table // as configured, with their OIDs
	// Warnings are remarks for an operator, one line each.
	Warnings []string

	endpoint endpoint
}

// Preflight looks by SQL at everything that has to be right before a session
// may start: the server's own reaction to a mistake is often an error at the
// first row, or silence. It returns the first fault, of a kind that the
// sentinels of this package name.
func Preflight(ctx context.Context, cfg Config) (Server, error) {
	conn, reached, err := cfg.connect(ctx, endpoint{})
	if err != nil {
		return Server{}, err
	}
	defer closeQuietly(conn)
	srv := Server{endpoint: reached}
	p := preflight{cfg: cfg, conn: conn, srv: &srv}
	for _, check := range []func(context.Context) error{
		p.server, p.replication, p.tables, p.publication, p.slot,
	} {
		if err := check(ctx); err != nil {
			return Server{}, mixedUp(reached.address, explain(ctx, conn, err))
		}
	}
	return srv, nil
}

// preflight is one run of the checks. Each reads what it needs and adds what
// it finds to srv.
type preflight struct {
	cfg      Config
	conn     *pgx.Conn
	srv      *Server
	columns  [][]string // of each table, those that are streamed
	streamed []string   // tables that the slot is known to have streamed
}

func (p *preflight) server(ctx context.Context) error {
	var walLevel, timeout string
	var recovery bool
	err := p.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('wal_level'),
  (SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout')`).Scan(&p.srv.Version, &recovery, &walLevel, &timeout)
	if err != nil {
		return fmt.Errorf("read the server's settings: %w", err)
	}
	ms, err := strconv.Atoi(timeout)
	if err != nil {
		return fmt.Errorf("read wal_sender_timeout: %w", err)
	}
	p.srv.WALSenderTimeout = p.cfg.walSenderTimeout(time.Duration(ms) * time.Millisecond)
	switch {
	case p.srv.Version < minVersion:
		return fault(ErrSetup, "the server is PostgreSQL %d; 14 or later is needed", p.srv.Version/10000)
	case recovery:
		return fault(ErrUnreachable, "the server at %s is a standby; name the primary in --dsn, or all hosts with target_session_attrs=read-write", p.srv.endpoint.address)
	case walLevel != "logical":
		return fault(ErrSetup, "wal_level is %s, it must be logical: ALTER SYSTEM SET wal_level = logical, then restart the server", walLevel)
	}
	return nil
}

// tables resolves the tables and finds their columns.
func (p *preflight) tables(ctx context.Context) error {
	if p.cfg.Streamed != nil {
		streamed, err := p.cfg.Streamed(ctx, p.conn)
		if err != nil {
			return err
		}
		p.streamed = streamed
	}
	for _, t := range p.cfg.Tables {
		var kind, persistence string
		var columns, nullable []string
		err := p.conn.QueryRow(ctx, `SELECT c.oid, c.relkind::text, c.relpersistence::text,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum),
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attnotnull)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`,
			t.Schema, t.Name).Scan(&t.OID, &kind, &persistence, &columns, &nullable)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fault(p.absentKind(t), "table %s does not exist%s; create it, for instance with \"outbox-cdc init\", or correct %s", t, p.absentHint(t), p.cfg.namedIn(t))
		case err != nil:
			return fmt.Errorf("look up table %s: %w", t, err)
		case kind != "r" && kind != "p":
			return fault(ErrSetup, "%s is not a table (relkind %s) and writes no WAL of its own; name the table behind it with %s", t, kind, p.cfg.namedIn(t))
		case persistence != "p":
			return fault(ErrSetup, "table %s is unlogged or temporary and writes no WAL; as its owner: ALTER TABLE %s SET LOGGED", t, t)
		}
		if missing := t.MissingColumns(columns); len(missing) > 0 {
			return fault(ErrSetup, "table %s has no column %s; add it to the table%s", t, strings.Join(missing, ", no column "), p.cfg.orCorrect(t))
		}
		if err := refuseNull(t, nullable); err != nil {
			return err
		}
		p.srv.Tables = append(p.srv.Tables, t)
		p.columns = append(p.columns, columns)
	}
	return nil
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

// absentKind tells a table that was never streamed, which is a matter of
// setup, from one that was: of that one rows may be missing already.
func (p *preflight) absentKind(t decoder.Table) error {
	if slices.Contains(p.streamed, t.String()) {
		return ErrGap
	}
	return ErrSetup
}

func (p *preflight) absentHint(t decoder.Table) string {
	if slices.Contains(p.streamed, t.String()) {
		return ", although this slot has streamed it: rows may be missing"
	}
	return ""
}

// publication checks that the server will send every row of every table, with
// the columns that are needed.
func (p *preflight) publication(ctx context.Context) error {
	pub, err := publicationOf(ctx, p.conn, p.cfg.Publication)
	if isMissing(err) {
		for _, t := range p.srv.Tables {
			if p.absentKind(t) == ErrGap {
				return fault(ErrGap, "publication %q does not exist%s; create it again with \"outbox-cdc publication create\" and publish again what is missing", p.cfg.Publication, p.absentHint(t))
			}
		}
	}
	if err != nil {
		return err
	}
	if !pub.Insert {
		return fault(ErrSetup, "publication %q does not publish inserts; as its owner: ALTER PUBLICATION %s SET (publish = '%s')",
			pub.Name, quoteIdentifier(pub.Name), pub.withInsert())
	}
	for i, t := range p.srv.Tables {
		if err := p.published(ctx, pub, t, p.columns[i]); err != nil {
			return err
		}
	}
	return nil
}

// published checks one table of the publication.
func (p *preflight) published(ctx context.Context, pub Publication, t decoder.Table, columns []string) error {
	m, err := member(ctx, p.conn, pub.Name, t.OID)
	if err != nil {
		return fmt.Errorf("look whether table %s is published: %w", t, err)
	}
	if !m.Published {
		if m.Kind == "p" && !pub.ViaRoot {
			return fault(ErrSetup, "publication %q sends the rows of table %s under the names of its partitions; as its owner: ALTER PUBLICATION %s SET (publish_via_partition_root = true)",
				pub.Name, t, quoteIdentifier(pub.Name))
		}
		return fault(p.absentKind(t), "publication %q does not publish table %s%s; add it with \"outbox-cdc publication create --publication %s\"", pub.Name, t, p.absentHint(t), pub.Name)
	}
	if m.RowFilter != "" {
		p.srv.Warnings = append(p.srv.Warnings, fmt.Sprintf("publication %q sends only rows of table %s that match %s; the others are not published", pub.Name, t, m.RowFilter))
	}
	if m.Columns == nil {
		return nil
	}
	if missing := t.MissingColumns(m.Columns); len(missing) > 0 {
		return fault(ErrSetup, "publication %q leaves out column %s of table %s; as its owner: drop the column list%s", pub.Name, strings.Join(missing, ", column "), t, p.cfg.orCorrect(t))
	}
	for _, c := range columns {
		if !slices.Contains(m.Columns, c) {
			p.srv.Warnings = append(p.srv.Warnings, fmt.Sprintf("publication %q leaves out column %q of table %s", pub.Name, c, t))
		}
	}
	return nil
}

func (p *preflight) slot(ctx context.Context) error {
	slot, err := ShowSlot(ctx, p.conn, p.cfg.Slot)
	if err != nil {
		return err
	}
	p.srv.Slot = slot
	return slot.usable()
}

// isMissing reports that err is the fault of a publication that does not
// exist.
func isMissing(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Kind == ErrSetup
}

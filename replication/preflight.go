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
	// conn and walsender are the connections of Preflight, which the session
	// goes on with; nil once the guard and the stream have them.
	conn      *pgx.Conn
	walsender *replicationConn
}

// Close closes the connections that no session has taken over, and waits, a
// little, until the server has let go of its walsender.
func (s *Server) Close() {
	if walsender := s.walsender; walsender != nil {
		s.walsender = nil
		walsender.leave()
	}
	s.leaveQuestions()
}

// leaveQuestions closes the connection on which questions are asked.
func (s *Server) leaveQuestions() {
	if conn := s.conn; conn != nil {
		s.conn = nil
		closeQuietly(conn)
	}
}

// Ask runs f with the connection of Preflight, which must not be kept. It may
// be called until OpenStream, by one goroutine at a time.
func (s *Server) Ask(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	return f(ctx, s.conn)
}

// Preflight looks by SQL at everything that has to be right before a session
// may start: the server's own reaction to a mistake is often an error at the
// first row, or silence. It returns the first fault, of a kind that the
// sentinels of this package name.
//
// The stream and the guard of a session go on with its connections. The caller
// closes the server.
func Preflight(ctx context.Context, cfg Config) (*Server, error) {
	conn, reached, err := cfg.connect(ctx, endpoint{})
	if err != nil {
		return nil, err
	}
	srv := &Server{endpoint: reached, conn: conn}
	p := preflight{cfg: cfg, conn: conn, srv: srv}
	if err := p.checks(ctx); err != nil {
		err = mixedUp(reached.address, explain(ctx, conn, err))
		srv.Close()
		return nil, err
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

// checks runs them all. What has to do with rows is looked up while the
// replication connection is being made, and judged after it.
func (p *preflight) checks(ctx context.Context) error {
	if err := p.server(ctx); err != nil {
		return err
	}
	attempt := make(chan attempted, 1)
	go func() { attempt <- p.attempt(ctx) }()
	rows := p.rows(ctx)
	waited, err := p.replication(ctx, <-attempt)
	if err != nil {
		return err
	}
	if waited {
		return p.rows(ctx) // much may have changed
	}
	return rows
}

// rows checks that the rows are there and will be sent.
func (p *preflight) rows(ctx context.Context) error {
	p.srv.Tables, p.srv.Warnings, p.columns = nil, nil, nil
	var questions []question
	for _, t := range p.cfg.Tables {
		questions = append(questions, ask(tableSQL, t.Schema, t.Name))
	}
	questions = append(questions, ask(publicationSQL, p.cfg.Publication), slotQuestion(p.cfg.Slot))
	answers := askTogether(ctx, p.conn, questions...)
	tables, publication, slot := answers[:len(p.cfg.Tables)], answers[len(p.cfg.Tables)], answers[len(p.cfg.Tables)+1]
	for i, t := range p.cfg.Tables {
		if err := p.table(ctx, t, tables[i]); err != nil {
			return err
		}
	}
	if err := p.publication(ctx, publication); err != nil {
		return err
	}
	var err error
	if p.srv.Slot, err = slotIn(ctx, p.conn, slot, p.cfg.Slot); err != nil {
		return err
	}
	return p.srv.Slot.usable()
}

func (p *preflight) server(ctx context.Context) error {
	var walLevel, timeout string
	var recovery bool
	err := ask(`SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('wal_level'),
  (SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout')`).on(ctx, p.conn).scan(&p.srv.Version, &recovery, &walLevel, &timeout)
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

const tableSQL = `SELECT c.oid, c.relkind::text, c.relpersistence::text,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum),
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attnotnull),
  ARRAY(SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum),
  ARRAY(SELECT format_type(a.atttypid, NULL) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`

// table resolves a table and finds its columns.
func (p *preflight) table(ctx context.Context, t decoder.Table, found answer) error {
	var kind, persistence string
	var columns columns
	err := found.scan(&t.OID, &kind, &persistence, &columns.names, &columns.nullable, &columns.types, &columns.typeNames)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		if err := p.lookBack(ctx); err != nil {
			return err
		}
		return fault(p.absentKind(t), "table %s does not exist%s; create it, for instance with \"outbox-cdc init\", or correct %s", t, p.absentHint(t), p.cfg.namedIn(t))
	case err != nil:
		return fmt.Errorf("look up table %s: %w", t, err)
	case kind != "r" && kind != "p":
		return fault(ErrSetup, "%s is not a table (relkind %s) and writes no WAL of its own; name the table behind it with %s", t, kind, p.cfg.namedIn(t))
	case persistence != "p":
		return fault(ErrSetup, "table %s is unlogged or temporary and writes no WAL; as its owner: ALTER TABLE %s SET LOGGED", t, t)
	}
	if err := p.cfg.checkColumns(t, columns); err != nil {
		return err
	}
	p.srv.Warnings = append(p.srv.Warnings, nullWarnings(t, columns)...)
	p.srv.Tables = append(p.srv.Tables, t)
	p.columns = append(p.columns, columns.names)
	return nil
}

// lookBack finds out which tables the slot has streamed, when one is absent.
func (p *preflight) lookBack(ctx context.Context) (err error) {
	if p.cfg.Streamed != nil {
		p.streamed, err = p.cfg.Streamed(ctx, p.conn)
	}
	return err
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
func (p *preflight) publication(ctx context.Context, found answer) error {
	pub, err := publicationIn(found, p.cfg.Publication)
	if isMissing(err) {
		if err := p.lookBack(ctx); err != nil {
			return err
		}
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
	var questions []question
	for _, t := range p.srv.Tables {
		questions = append(questions, memberQuestion(p.srv.Version, pub.Name, t.OID))
	}
	for i, found := range askTogether(ctx, p.conn, questions...) {
		if err := p.published(ctx, pub, i, found); err != nil {
			return err
		}
	}
	return nil
}

// published checks the i-th table of the publication.
func (p *preflight) published(ctx context.Context, pub Publication, i int, found answer) error {
	t, columns := p.srv.Tables[i], p.columns[i]
	m, err := memberIn(found, t.OID)
	if err != nil {
		return fmt.Errorf("look whether table %s is published: %w", t, err)
	}
	if !m.Published {
		if m.Kind == "p" && !pub.ViaRoot {
			return fault(ErrSetup, "publication %q sends the rows of table %s under the names of its partitions; as its owner: ALTER PUBLICATION %s SET (publish_via_partition_root = true)",
				pub.Name, t, quoteIdentifier(pub.Name))
		}
		if len(m.Root) == 2 {
			root := decoder.Table{Schema: m.Root[0], Name: m.Root[1]}
			return fault(ErrSetup, "table %s is a partition, and publication %q sends its rows as those of table %s; name only that one: correct %s", t, pub.Name, root, p.cfg.namedIn(t))
		}
		if err := p.lookBack(ctx); err != nil {
			return err
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

// isMissing reports that err is the fault of a publication that does not
// exist.
func isMissing(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Kind == ErrSetup
}

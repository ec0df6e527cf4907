package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/sql"
)

// Errors that the caller branches on.
var (
	// ErrMoved reports a slot that somebody else moved: what lies between the
	// two positions may not have been published.
	ErrMoved = errors.New("slot was moved")
	// ErrUnavailable reports a record that cannot be read or written for want
	// of the table or of a right. Gap detection is off then.
	ErrUnavailable = errors.New("gap detection is off")
	// ErrOvertaken reports a record that another session has taken over.
	ErrOvertaken = errors.New("record was taken over by another session")
)

// Record is what the table outbox_cdc_checkpoint knows about a slot. It serves
// to detect a gap. It is never a position to start from.
type Record struct {
	Slot       string
	Confirmed  pglogrepl.LSN
	CommitTime time.Time // of the last event that was confirmed; zero if none was
	SystemID   string    // of the server; empty if unknown
	Timeline   int32
	Session    string // the session that wrote it
	Clean      bool   // whether that session ended in order
	Tables     []string
}

// Memory is what this process knows of its own sessions on a slot, for Judge.
// The zero value is a process that has had none.
type Memory struct {
	sessions  map[string]bool
	confirmed pglogrepl.LSN
}

// Began notes a session of this process, which found the slot at position and
// accepted it.
func (m *Memory) Began(session string, position pglogrepl.LSN) {
	if m.sessions == nil {
		m.sessions = make(map[string]bool)
	}
	m.sessions[session] = true
	m.Confirmed(position)
}

// Confirmed notes that this process may have told the server of lsn.
func (m *Memory) Confirmed(lsn pglogrepl.LSN) { m.confirmed = max(m.confirmed, lsn) }

// Judge tells whether somebody else moved the slot. rec is nil if the slot has
// none; position is where the slot stands after START, before this session has
// moved it; systemID is the server's.
//
// The error is ErrMoved with both positions if the slot is ahead of a record
// that was closed in order, or ahead of what this process confirmed while the
// record still carries one of its sessions. After a crash, or another holder, a
// slot ahead of its record cannot be told from ordinary progress: that is a warning.
func Judge(rec *Record, position pglogrepl.LSN, systemID string, own Memory) (warning string, err error) {
	if rec == nil {
		return "", nil
	}
	if rec.SystemID != "" && rec.SystemID != systemID {
		return fmt.Sprintf("the record of slot %q belongs to another server (system identifier %s, this is %s); it says nothing about this slot",
			rec.Slot, rec.SystemID, systemID), nil
	}
	switch {
	case own.sessions[rec.Session]:
		if position > own.confirmed {
			return "", moved(rec.Slot, position, own.confirmed, "this process confirmed")
		}
	case position <= rec.Confirmed:
	case rec.Clean:
		return "", moved(rec.Slot, position, rec.Confirmed, "its last session, which ended in order, confirmed")
	default:
		return fmt.Sprintf("slot %q stands at %s, its record at %s: progress since the record was last written, or somebody moved the slot; that cannot be told",
			rec.Slot, position, rec.Confirmed), nil
	}
	return "", nil
}

func moved(slot string, found, known pglogrepl.LSN, who string) error {
	return fmt.Errorf("%w: slot %q stands at %s, but %s no more than %s, so it was advanced or created again by somebody else; "+
		"events between the two may be missing: publish them again from the table, then accept the position with \"outbox-cdc slot advance --slot %s --to %s\"",
		ErrMoved, slot, found, who, known, slot, found)
}

// Load reads the record of a slot from the table in schema; nil means that
// there is none. The error may be ErrUnavailable: also if there is a record that
// the role may read but not write, since it would stay behind the slot and look
// like a gap at the next start.
func Load(ctx context.Context, conn *pgx.Conn, schema, slot string) (*Record, error) {
	rec := Record{Slot: slot}
	var confirmed string
	var commitTime *time.Time
	var writable bool
	err := conn.QueryRow(ctx, `SELECT confirmed::text, commit_time, system_id, timeline, session, clean, tables,
  has_table_privilege($2, 'INSERT') AND has_table_privilege($2, 'UPDATE')
FROM `+table(schema)+" WHERE slot = $1", slot, table(schema)).
		Scan(&confirmed, &commitTime, &rec.SystemID, &rec.Timeline, &rec.Session, &rec.Clean, &rec.Tables, &writable)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, recordError("read", schema, err)
	}
	if !writable {
		return nil, noRight("write", schema)
	}
	if commitTime != nil {
		rec.CommitTime = *commitTime
	}
	rec.Confirmed, err = pglogrepl.ParseLSN(confirmed)
	return &rec, err
}

// Accept writes that the slot stands at position and that this is right: the
// slot was created, or moved, on purpose. created says that it is a new slot,
// which has streamed nothing. The error may be ErrUnavailable.
func Accept(ctx context.Context, conn *pgx.Conn, schema, slot string, position pglogrepl.LSN, created bool) error {
	// Some services keep this function to themselves. An empty identifier is
	// not compared.
	var systemID string
	if err := conn.QueryRow(ctx, "SELECT system_identifier::text FROM pg_control_system()").Scan(&systemID); err != nil {
		systemID = ""
	}
	_, err := conn.Exec(ctx, "INSERT INTO "+table(schema)+` AS r (slot, confirmed, system_id, timeline, session, clean, tables)
VALUES ($1, $2::text::pg_lsn, $3, 0, '', true, '{}')
ON CONFLICT (slot) DO UPDATE SET confirmed = excluded.confirmed, system_id = excluded.system_id, session = '', clean = true,
  tables = CASE WHEN $4 THEN '{}' ELSE r.tables END, updated_at = now()`, slot, position.String(), systemID, created)
	if err != nil {
		return recordError("write", schema, err)
	}
	return nil
}

func table(schema string) string { return sql.Qualified(schema, sql.CheckpointTable) }

// recordError tells a record that is not to be had from a failure.
func recordError(verb, schema string, err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		switch pgErr.Code {
		case "42P01", "3F000", "42703": // no table, no schema, a table of another shape
			return fmt.Errorf("%w: there is no table %s as this version knows it; create it with \"outbox-cdc init\": %w", ErrUnavailable, table(schema), err)
		case "42501":
			return fmt.Errorf("%w: %w", noRight(verb, schema), err)
		}
	}
	return fmt.Errorf("%s the record in %s: %w", verb, table(schema), err)
}

func noRight(verb, schema string) error {
	return fmt.Errorf("%w: no right to %s the record; as the owner: GRANT SELECT, INSERT, UPDATE ON %s TO the role that runs outbox-cdc", ErrUnavailable, verb, table(schema))
}

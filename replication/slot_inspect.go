package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Client is the connection that holds a slot, as far as the role may see it.
type Client struct {
	User        string `json:"user,omitempty"`
	Application string `json:"application_name,omitempty"`
	Address     string `json:"address,omitempty"` // empty for a local socket too
	// FlushLag is how long the position that was confirmed last took to be
	// confirmed, in seconds, as the server measured it; nil if it has not
	// lately. It does not grow while nothing is confirmed.
	FlushLag *float64 `json:"flush_lag_seconds,omitempty"`
	// CaughtUp says that all that was sent is confirmed.
	CaughtUp bool `json:"-"`
}

const clientColumns = `SELECT s.slot_name, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''),
  extract(epoch FROM r.flush_lag)::float8, coalesce(r.sent_lsn <= r.flush_lsn, false)
FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid`

// ListSlots returns every slot of the server, also those of others: each holds
// WAL. What the role may not see is left out.
func ListSlots(ctx context.Context, conn *pgx.Conn) ([]Slot, error) {
	slots, _, err := InspectSlots(ctx, conn)
	return slots, err
}

// InspectSlots is ListSlots, with the clients that hold the slots. A right that
// the role lacks costs a remark, one line that says what is left out and how to
// give it, not the list.
func InspectSlots(ctx context.Context, conn *pgx.Conn) (slots []Slot, remarks []string, err error) {
	slots, err = querySlots(ctx, conn, slotColumns+" ORDER BY s.slot_name")
	if isCode(err, "42501") {
		remarks = append(remarks, "lag and retained bytes are left out: "+explain(ctx, conn, err).Error())
		slots, err = querySlots(ctx, conn, unmeasured+" ORDER BY s.slot_name")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list slots: %w", explain(ctx, conn, err))
	}
	clients, err := queryClients(ctx, conn)
	if isCode(err, "42501") {
		return slots, append(remarks, "the clients that hold slots are left out: "+explain(ctx, conn, err).Error()), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list the clients of slots: %w", err)
	}
	for i, s := range slots {
		slots[i].Client = clients[s.Name]
	}
	return slots, remarks, nil
}

// InspectSlot is InspectSlots for one slot. One that does not exist is a fault
// of kind ErrGap.
func InspectSlot(ctx context.Context, conn *pgx.Conn, name string) (Slot, []string, error) {
	slots, remarks, err := InspectSlots(ctx, conn)
	if err != nil {
		return Slot{}, nil, err
	}
	for _, s := range slots {
		if s.Name == name {
			return s, remarks, nil
		}
	}
	return Slot{}, nil, errNoSlot(name)
}

func queryClients(ctx context.Context, conn *pgx.Conn) (map[string]*Client, error) {
	rows, err := conn.Query(ctx, clientColumns)
	if err != nil {
		return nil, err
	}
	clients := make(map[string]*Client)
	var name string
	var c Client
	_, err = pgx.ForEachRow(rows, []any{&name, &c.User, &c.Application, &c.Address, &c.FlushLag, &c.CaughtUp}, func() error {
		held := c
		clients[name] = &held
		return nil
	})
	return clients, err
}

// Holder describes the connection that holds the slot.
func (s Slot) Holder() string {
	who := fmt.Sprintf("process %d of the server", s.ActivePID)
	if s.Client == nil {
		return who
	}
	return who + s.Client.inBrackets()
}

// inBrackets returns what is known of the client, for the end of a phrase.
func (c Client) inBrackets() string {
	var known []string
	for _, k := range []struct{ what, value string }{{"user", c.User}, {"application", c.Application}, {"from", c.Address}} {
		if k.value != "" {
			known = append(known, k.what+" "+k.value)
		}
	}
	if known == nil {
		return ""
	}
	return " (" + strings.Join(known, ", ") + ")"
}

// Age says since when nobody has read the slot, or that somebody does. Before
// PostgreSQL 17 the server does not know, and the transactions that have run
// since have to stand for the time.
func (s Slot) Age() string {
	switch {
	case s.ActivePID != 0:
		return fmt.Sprintf("active, pid %d", s.ActivePID)
	case s.InactiveSince != nil:
		return "inactive for " + s.ServerTime.Sub(*s.InactiveSince).Round(time.Second).String()
	}
	return fmt.Sprintf("inactive, %d transactions behind", s.XminAge)
}

// monitoring are functions of the server that every role may execute unless
// somebody has taken that away.
var monitoring = []string{
	"pg_current_wal_lsn()", "pg_last_wal_replay_lsn()", "pg_is_in_recovery()", "pg_get_replication_slots()",
	"pg_stat_get_wal_senders()", "pg_stat_get_activity(integer)", "pg_get_publication_tables(text)", "pg_get_publication_tables(text[])",
}

// explain names the functions that the role may not execute, and how to give it
// that, if err is about a missing right. Other errors are returned as they are.
func explain(ctx context.Context, conn *pgx.Conn, err error) error {
	var known *Fault
	if !isCode(err, "42501") || errors.As(err, &known) {
		return err
	}
	var user string
	var missing []string
	query := `SELECT current_user, ARRAY(SELECT f FROM unnest($1::text[]) f
WHERE to_regprocedure('pg_catalog.' || f) IS NOT NULL AND NOT has_function_privilege(to_regprocedure('pg_catalog.' || f), 'EXECUTE'))`
	if lookup := conn.QueryRow(ctx, query, monitoring).Scan(&user, &missing); lookup != nil || len(missing) == 0 {
		return err
	}
	return fault(ErrDenied, "user %q may not execute %s; as a superuser: GRANT EXECUTE ON FUNCTION %s TO %s",
		user, strings.Join(missing, ", "), strings.Join(missing, ", "), quoteIdentifier(user))
}

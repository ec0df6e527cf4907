package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/units"
)

// Defaults and limits of a Config.
const (
	// maxStatusInterval is the longest time between two status updates unless
	// the configuration says otherwise.
	maxStatusInterval     = 10 * time.Second
	defaultSilenceTimeout = 30 * time.Second
	defaultMembership     = 30 * time.Second
	defaultApplication    = "outbox-cdc"
)

// Config says what to stream and from where. The zero value of a field that
// has a default means the default.
type Config struct {
	// DSN is a connection URL or a libpq keyword string. What it leaves out
	// comes from the PG* variables of the environment.
	DSN string
	// Password is the user's. It goes before the one of the DSN; empty leaves
	// that, or PGPASSWORD, or the password file.
	Password    string
	Slot        string
	Publication string
	Tables      []decoder.Table

	// MessagePrefix, if not empty, has transactional logical messages with it be
	// events too. Then there need not be any table.
	MessagePrefix string

	// StatusInterval is the longest time between two status updates. The
	// default is a third of the server's wal_sender_timeout, at most 10 s.
	StatusInterval time.Duration
	// SilenceTimeout ends a session in which the server has said nothing for
	// so long while we were reading, although every status update asks it to.
	// The default is 30 s.
	SilenceTimeout time.Duration
	// MembershipInterval is how often the guard looks whether the tables are
	// still published. The default is 30 s.
	MembershipInterval time.Duration
	// NoWait makes a slot that another connection holds an error, ErrBusy.
	NoWait bool
	// ApplicationName is what pg_stat_activity shows. A name in the DSN goes
	// first; the default is outbox-cdc.
	ApplicationName string

	// Waiting, if set, is called when the slot is found held by another
	// connection, and again when the holder changes.
	Waiting func(Holder)
	// Streamed, if set, returns the tables, as decoder.Table.String gives them,
	// that this slot is known to have streamed before. One of them that is no
	// longer published is a gap; any other is a matter of setup.
	Streamed func(context.Context, *pgx.Conn) ([]string, error)
	// Places says where tables are described, by their names as in SQL. It is
	// for the remedies alone.
	Places map[string]Place
	// Watch, if set, is given the state of the slot every few seconds, while a
	// session holds it and while it is waited for.
	Watch func(Slot)
	// HeldBack, if set, is told why the server does not send what it has, one
	// line for an operator, and gets an empty line when it sends again.
	HeldBack func(why string)
	// Log receives what belongs on an operator's timeline. The default
	// discards it.
	Log *slog.Logger
}

// Place is where a table is described: options, or lines of a file.
type Place struct {
	Name    string // where its name is; empty is --table
	Columns string // where its columns are; empty if they are the default ones
}

// Validate reports all faults of the configuration at once.
func (c Config) Validate() error {
	errs := []error{
		validateDSN(c.DSN),
		ValidateSlotName(c.Slot),
		ValidatePublicationName(c.Publication),
	}
	if len(c.Tables) == 0 && c.MessagePrefix == "" {
		errs = append(errs, errors.New("--table must name at least one table"))
	}
	seen := make(map[string]bool)
	for _, t := range c.Tables {
		errs = append(errs, validateIdentifier("--table schema", t.Schema), validateIdentifier("--table name", t.Name))
		if seen[t.String()] {
			errs = append(errs, fmt.Errorf("--table must name each table once, got %s twice", t))
		}
		seen[t.String()] = true
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"--status-interval", c.StatusInterval},
		{"--silence-timeout", c.SilenceTimeout},
		{"the membership interval", c.MembershipInterval},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s must be positive, got %s", d.flag, units.Duration(d.value)))
		}
	}
	if c.StatusInterval > 0 && c.silenceTimeout() <= c.StatusInterval {
		errs = append(errs, fmt.Errorf("--silence-timeout must be longer than --status-interval, got %s and %s", units.Duration(c.silenceTimeout()), units.Duration(c.StatusInterval)))
	}
	return errors.Join(errs...)
}

// namedIn returns where the name of a table is to be corrected.
func (c Config) namedIn(t decoder.Table) string {
	if place := c.Places[t.String()]; place.Name != "" {
		return place.Name
	}
	return "--table"
}

// orCorrect says, behind the remedy for a column, where else it could be put
// right.
func (c Config) orCorrect(t decoder.Table) string {
	if place := c.Places[t.String()]; place.Columns != "" {
		return ", or correct " + place.Columns
	}
	return ""
}

// statusInterval returns how often to report to a server with the given
// wal_sender_timeout; 0 means that it has none.
func (c Config) statusInterval(walSenderTimeout time.Duration) time.Duration {
	interval := c.StatusInterval
	if interval == 0 {
		interval = maxStatusInterval
		if walSenderTimeout > 0 {
			interval = min(interval, walSenderTimeout/3)
		}
		// A server can only break its silence when it is asked.
		interval = min(interval, c.silenceTimeout()/3)
	}
	return interval
}

// walSenderTimeout returns the wal_sender_timeout that a session asks for,
// given the server's. While the server works through a large transaction that
// is not published, it answers only when half of that has passed; it must not
// be taken for dead until then.
func (c Config) walSenderTimeout(server time.Duration) time.Duration {
	if server == 0 {
		return 0
	}
	return min(server, c.silenceTimeout())
}

func (c Config) silenceTimeout() time.Duration {
	if c.SilenceTimeout == 0 {
		return defaultSilenceTimeout
	}
	return c.SilenceTimeout
}

func (c Config) membershipInterval() time.Duration {
	if c.MembershipInterval == 0 {
		return defaultMembership
	}
	return c.MembershipInterval
}

func (c Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

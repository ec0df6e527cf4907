package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// The exit codes.
const (
	codeOK       = 0
	codeRuntime  = 1
	codeUsage    = 2
	codePostgres = 4
	codeKafka    = 5
	codeGap      = 6
	codeBusy     = 7
	codeHalted   = 8
	codeDenied   = 9
)

// class is what the session loop does about an error.
type class int

const (
	// classTransient: start another session after a pause.
	classTransient class = iota
	// classStartOver: start another session at once.
	classStartOver
	// classFatal: a person must act; end the process.
	classFatal
)

// rule is one row of the table of errors.
type rule struct {
	matches func(error) bool
	class   class
	// code is the exit code of a process that the error ends. A transient one
	// does so as long as no session has been up, and in all commands but run.
	code   int
	reason string
}

// rules is the one table of errors. The first row that matches counts, and
// what none matches is transient: an error that nobody knows is no reason to
// stop.
func rules() []rule {
	return []rule{
		{is(errUsage), classFatal, codeUsage, "the command line is wrong, and stays so"},
		{isHelpTopic, classFatal, codeUsage, "help was asked for a command that does not exist"},
		{is(errInterrupted), classFatal, codeRuntime, "a command that was broken off has not done its work"},
		{is(errSecondSignal), classFatal, codeRuntime, "the person at the terminal does not want to wait"},
		{is(errUnfinished), classFatal, codeRuntime, "the process was asked to stop, so there is no other session to put it right"},
		{is(errShutdownTimeout), classFatal, codeRuntime, "the supervisor would kill us next"},
		{is(errDeclined), classFatal, codeRuntime, "the person at the terminal said no"},

		{is(publisher.ErrStartOver), classStartOver, codeRuntime, "what the session was built on proved untrue; another one finds out what is true"},
		{is(publisher.ErrHalted), classFatal, codeHalted, "the operator has asked to decide about poison in person"},
		{is(publisher.ErrFence), classFatal, codeDenied, "the operator has asked for rights that are missing"},
		{is(publisher.ErrDenied), classFatal, codeDenied, "a login or right does not come back by itself, and repeated tries lock accounts"},
		{is(publisher.ErrSetup), classFatal, codeUsage, "the topic does not exist, or the listener is another one than configured"},
		{is(publisher.ErrUnreachable), classTransient, codeKafka, "brokers come back"},

		{is(replication.ErrSetup), classFatal, codeUsage, "the database is not set up as configured; waiting does not create a publication"},
		{is(replication.ErrGap), classFatal, codeGap, "going on would hide that rows may be missing"},
		{is(checkpoint.ErrMoved), classFatal, codeGap, "going on would hide that rows may be missing"},
		{is(checkpoint.ErrOvertaken), classTransient, codePostgres, "another session has begun on the slot; ours is over"},
		{is(replication.ErrBusy), classFatal, codeBusy, "the operator has asked not to wait"},
		{is(replication.ErrDenied), classFatal, codeDenied, "a password or right does not come back by itself, and repeated tries lock accounts"},
		{isMapping, classFatal, codeUsage, "a row cannot be published without the column, and must not be skipped"},
		{is(replication.ErrUnreachable), classTransient, codePostgres, "servers come back"},
		{is(replication.ErrNotOwner), classTransient, codePostgres, "another walsender has the slot; wait for it to be free"},
		{is(replication.ErrShutdown), classTransient, codePostgres, "the server is restarted"},
		{is(replication.ErrSilent), classTransient, codePostgres, "the connection is dead, the server need not be"},
		{isDenied, classFatal, codeDenied, "a right is missing and does not come by itself"},
		{is(errNotStarted), classTransient, codePostgres, "Kafka answered, so it was the database that did not"},
		{isPostgres, classTransient, codeRuntime, "the server gave up the statement; what is really wrong is looked up by SQL before the next session"},
	}
}

// classify returns the row of the table that err falls under.
func classify(err error) rule {
	for _, r := range rules() {
		if r.matches(err) {
			return r
		}
	}
	return rule{class: classTransient, code: codeRuntime, reason: "unknown"}
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// isDenied recognises SQLSTATE 42501, insufficient_privilege.
func isDenied(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "42501"
}

func isPostgres(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused)
}

func isMapping(err error) bool {
	var mapping *decoder.MappingError
	return errors.As(err, &mapping)
}

// isHelpTopic recognises what the library says to "help" with a word that is no
// command: nothing else of it has an exit code of its own.
func isHelpTopic(err error) bool {
	var exit cli.ExitCoder
	return errors.As(err, &exit)
}

// errUsage is a command line or configuration that cannot be carried out.
var errUsage = errors.New("usage")

// usageError is a fault of the command line. Its text is the whole line.
type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{errUsage, e.error} }

func usage(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// operatorLines returns the lines that tell an operator why the process ends:
// one, or one for each fault of the configuration.
func operatorLines(err error) []string {
	if faults := configurationFaults(err); len(faults) > 0 {
		return faults
	}
	return []string{oneLine(err.Error())}
}

// configurationFaults takes a joined error of the configuration apart.
func configurationFaults(err error) []string {
	var faulty usageError
	if !errors.As(err, &faulty) {
		return nil
	}
	var lines []string
	for line := range strings.Lines(faulty.Error()) {
		lines = append(lines, oneLine(line))
	}
	return lines
}

// oneLine joins the lines of a text.
func oneLine(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// interrupted reports whether err says no more than that ctx has ended.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
}

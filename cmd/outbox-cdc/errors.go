package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
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

// rule is one row of the table of errors. The texts are those of
// docs/exit-codes.md; the error itself names the concrete thing and remedy.
type rule struct {
	name    string // what happened
	matches func(error) bool
	class   class
	// code is the exit code of a process that the error ends. A transient one
	// does so as long as no session has been up, and in all commands but run.
	code   int
	reason string // for the class
	remedy string
}

// rules is the one table of errors. The first row that matches counts. The
// last matches all: an error that nobody knows is no reason to stop.
func rules() []rule {
	return slices.Concat(ownRules(), kafkaRules(), postgresRules(), []rule{{
		name: "anything else", matches: func(error) bool { return true }, class: classTransient, code: codeRuntime,
		reason: "an error that nobody knows is no reason to stop",
		remedy: "read the line; if it comes again and again, report it",
	}})
}

// ownRules are about the process itself.
func ownRules() []rule {
	return []rule{
		{
			name: "a flag, variable, setting or command is wrong, or the address of --http is taken", matches: is(errUsage), class: classFatal, code: codeUsage,
			reason: "it stays so",
			remedy: "correct what each line names; --help lists the flags of a command",
		},
		{
			name: "a fault of the program itself", matches: is(errInternal), class: classFatal, code: codeRuntime,
			reason: "what it holds in memory cannot be trusted; the slot and the topics can",
			remedy: "start it again, and report the line together with what \"--log-level debug\" prints beside it",
		},
		{
			name: "a command other than run was stopped by a signal", matches: is(errInterrupted), class: classFatal, code: codeRuntime,
			reason: "it has not done its work",
			remedy: "run the command again",
		},
		{
			name: "a second signal", matches: is(errSecondSignal), class: classFatal, code: codeRuntime,
			reason: "somebody does not want to wait",
			remedy: "nothing; what was not confirmed is sent again at the next start and recognised",
		},
		{
			name: "the last session could not be left in order", matches: is(errUnfinished), class: classFatal, code: codeRuntime,
			reason: "the process was asked to stop, so there is no other session to put it right",
			remedy: "nothing; what was not confirmed is sent again at the next start and recognised",
		},
		{
			name: "--shutdown-timeout ran out", matches: is(errShutdownTimeout), class: classFatal, code: codeRuntime,
			reason: "the supervisor would kill the process next",
			remedy: "see why the brokers do not acknowledge; nothing is lost, and what was sent is recognised at the next start",
		},
		{
			name: "a question was answered with no", matches: is(errDeclined), class: classFatal, code: codeRuntime,
			reason: "nothing was changed",
			remedy: "answer yes, or give --yes where there is no terminal",
		},
	}
}

// kafkaRules are about the brokers.
func kafkaRules() []rule {
	return []rule{
		{
			name: "a session rested on what proved untrue", matches: is(publisher.ErrStartOver), class: classStartOver, code: codeRuntime,
			reason: "another session finds out what is true",
			remedy: "nothing; if it comes again and again, report it",
		},
		{
			name: "an event can never be published, with \"--on-poison halt\"", matches: is(publisher.ErrHalted), class: classFatal, code: codeHalted,
			reason: "the operator has asked to decide in person",
			remedy: "remove the cause that the line names and start again, or let \"--on-poison dead-letter\" set such events aside",
		},
		{
			name: "\"--fence require\", and a right for it is missing", matches: is(publisher.ErrFence), class: classFatal, code: codeDenied,
			reason: "the operator has asked for what the rights do not allow",
			remedy: "add the ACL that the line names, or let \"--fence auto\" do with less",
		},
		{
			name: "Kafka refused the login or the certificate, or a right is missing", matches: is(publisher.ErrDenied), class: classFatal, code: codeDenied,
			reason: "it does not come by itself, and repeated tries lock accounts",
			remedy: "check user, password, mechanism and certificates, or add the ACL that the line names",
		},
		{
			name: "a topic does not exist, or the brokers' listener is another one than configured", matches: is(publisher.ErrSetup), class: classFatal, code: codeUsage,
			reason: "waiting does not create a topic",
			remedy: "create the topic, or correct --topic, --brokers, --tls or --sasl-mechanism",
		},
		{
			name: "the listener at --brokers speaks another protocol: TLS or none, or not Kafka's", matches: is(publisher.ErrProtocol), class: classFatal, code: codeKafka,
			reason: "it has answered, and goes on doing so",
			remedy: "correct --tls or the port in --brokers, as the line says",
		},
		{
			name: "no broker answers", matches: is(publisher.ErrUnreachable), class: classTransient, code: codeKafka,
			reason: "brokers come back",
			remedy: "see that they run, and check --brokers and the network",
		},
	}
}

// postgresRules are about the database server.
func postgresRules() []rule {
	return []rule{
		{
			name: "the database is not set up as configured: wal_level, publication, table, column, or the slot's plugin, database or kind", matches: is(replication.ErrSetup), class: classFatal, code: codeUsage,
			reason: "waiting does not create a publication",
			remedy: "carry out what the line says, or correct the flag that it names",
		},
		{
			name: "the slot is missing or lost, or a table that it has streamed is no longer published", matches: is(replication.ErrGap), class: classFatal, code: codeGap,
			reason: "going on would hide that events may be missing",
			remedy: "find out what happened, create again what is missing, and publish again from the table what was committed meanwhile",
		},
		{
			name: "the slot was advanced, or dropped and created again", matches: is(checkpoint.ErrMoved), class: classFatal, code: codeGap,
			reason: "going on would hide that events may be missing",
			remedy: "publish again from the table what was committed between the two positions, then accept the new one with \"outbox-cdc slot advance\"",
		},
		{
			name: "another session has begun on the slot", matches: is(checkpoint.ErrOvertaken), class: classTransient, code: codePostgres,
			reason: "this one is over, and the next one waits for the slot",
			remedy: "nothing",
		},
		{
			name: "the slot is in use, or open transactions keep it from being created", matches: is(replication.ErrBusy), class: classFatal, code: codeBusy,
			reason: "the operator has asked not to wait",
			remedy: "end what the line names, or wait: without --no-wait, or with a longer --timeout",
		},
		{
			name: "PostgreSQL refused the password, TLS, the connection by pg_hba.conf, or a right is missing", matches: is(replication.ErrDenied), class: classFatal, code: codeDenied,
			reason: "it does not come by itself, and repeated tries lock accounts",
			remedy: "check --dsn, or execute the statement that the line names",
		},
		{
			name: "a column that is mapped has disappeared from the stream", matches: isMapping, class: classFatal, code: codeUsage,
			reason: "a row cannot be published without it, and must not be skipped",
			remedy: "add the column again; what was written without it is passed with \"outbox-cdc slot advance\" and published in another way",
		},
		{
			name: "PostgreSQL does not answer, is not yet a primary, or has no connection free", matches: is(replication.ErrUnreachable), class: classTransient, code: codePostgres,
			reason: "servers come back",
			remedy: "see that it runs, and check --dsn and the network",
		},
		{
			name: "another process holds the slot", matches: is(replication.ErrNotOwner), class: classTransient, code: codePostgres,
			reason: "it is waited for",
			remedy: "nothing",
		},
		{
			name: "PostgreSQL is shutting down", matches: is(replication.ErrShutdown), class: classTransient, code: codePostgres,
			reason: "it is restarted",
			remedy: "nothing",
		},
		{
			name: "PostgreSQL says nothing for --silence-timeout", matches: is(replication.ErrSilent), class: classTransient, code: codePostgres,
			reason: "the connection is dead, the server need not be",
			remedy: "nothing; if it comes again and again, check the network",
		},
		{
			name: "a right in the database is missing", matches: isDenied, class: classFatal, code: codeDenied,
			reason: "it does not come by itself",
			remedy: "grant it, as \"outbox-cdc init --role\" does",
		},
		{
			name: "no session came up within --start-timeout", matches: is(errNotStarted), class: classTransient, code: codePostgres,
			reason: "Kafka answered, so it was the database that did not",
			remedy: "see what the line names, or raise --start-timeout",
		},
		{
			name: "PostgreSQL gave up a statement or a connection", matches: isPostgres, class: classTransient, code: codeRuntime,
			reason: "what is really wrong is looked up before the next session",
			remedy: "read the line; if it comes again and again, look into the log of the server",
		},
	}
}

// classify returns the row of the table that err falls under.
func classify(err error) rule {
	all := rules()
	return all[slices.IndexFunc(all, func(r rule) bool { return r.matches(err) })]
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

var (
	// errUsage is a command line or configuration that cannot be carried out.
	errUsage = errors.New("usage")
	// errInternal is a contract broken inside this program.
	errInternal = errors.New("internal error")
)

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

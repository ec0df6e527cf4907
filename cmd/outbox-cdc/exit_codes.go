package main

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

// restart says whether starting the process again helps.
type restart string

const (
	restartNeedless    restart = "no need"
	restartHelps       restart = "yes"
	restartAfterChange restart = "after a change"
	restartHides       restart = "no"
)

// exitCode is what an exit code says to an operator and to a supervisor.
type exitCode struct {
	code    int
	meaning string
	restart restart
}

// exitCodes returns the exit codes in order. What leads to each is in rules.
func exitCodes() []exitCode {
	return []exitCode{
		{codeOK, "stopped in order, or the command has done its work", restartNeedless},
		{codeRuntime, "an error while running, a second signal, or a stop that took too long", restartHelps},
		{codeUsage, "usage or configuration; a database or topic that is not set up as configured", restartAfterChange},
		{codePostgres, "PostgreSQL could not be reached, by run within --start-timeout", restartHelps},
		{codeKafka, "Kafka could not be reached within --start-timeout", restartHelps},
		{codeGap, "slot missing, lost, re-created or moved, or a table unpublished: events may be missing", restartHides},
		{codeBusy, "another process holds the slot, and the command was told not to wait", restartHelps},
		{codeHalted, "halted on an event that cannot be published, with \"--on-poison halt\"", restartAfterChange},
		{codeDenied, "password, certificate, SASL, REPLICATION or a right refused", restartAfterChange},
	}
}

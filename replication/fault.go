package replication

import (
	"errors"
	"fmt"
)

// The kinds of fault that the caller branches on. The first four need a
// person; with the others, and with an error that is none of them, end the
// session, back off and start again.
var (
	// ErrSetup: the server, the publication or a table is not set up as
	// configured.
	ErrSetup = errors.New("not set up as configured")
	// ErrGap: the slot or the publication lost continuity, so rows may be
	// missing and starting over would hide it.
	ErrGap = errors.New("a gap is possible")
	// ErrBusy: another connection holds the slot.
	ErrBusy = errors.New("slot busy")
	// ErrDenied: password, certificate, pg_hba.conf or a right.
	ErrDenied = errors.New("access denied")
	// ErrUnreachable: the server does not answer, or not yet as a primary.
	ErrUnreachable = errors.New("PostgreSQL unreachable")
	// ErrNotOwner: the slot is not held by the walsender of this session.
	ErrNotOwner = errors.New("slot not held by this session")
	// ErrShutdown: the server is shutting down and waits for us to leave.
	ErrShutdown = errors.New("server is shutting down")
	// ErrSilent: the server said nothing for longer than the silence timeout.
	ErrSilent = errors.New("server is silent")
)

// Fault is an error for an operator: one line that names the thing, the value
// and the remedy.
type Fault struct {
	Kind    error // one of the sentinels of this package
	Message string
	Cause   error // what the server or the network said, or nil
}

// Error returns the line.
func (f *Fault) Error() string {
	if f.Cause == nil {
		return f.Message
	}
	return f.Message + ": " + oneLine(f.Cause)
}

// Unwrap makes errors.Is find the kind and the cause.
func (f *Fault) Unwrap() []error {
	if f.Cause == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Cause}
}

func fault(kind error, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

func (f *Fault) because(err error) *Fault {
	f.Cause = err
	return f
}

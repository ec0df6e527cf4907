package replication

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connectFault says why a connection could not be made, and what to do. A DSN
// may name several hosts, and each may be tried with and without TLS: as long
// as one of the attempts may succeed later, waiting is right.
func connectFault(ctx context.Context, cc *pgx.ConnConfig, err error) error {
	if ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded {
		return context.Cause(ctx)
	}
	var unwrapped *pgconn.ConnectError
	if errors.As(err, &unwrapped) {
		err = unwrapped.Unwrap()
	}
	var verdict *Fault
	made := attempts(err)
	for _, attempt := range made {
		f := attemptFault(cc, attempt)
		if verdict == nil || verdict.Kind != ErrUnreachable || f.Kind == ErrUnreachable || endsAttempts(attempt) {
			verdict = f
		}
	}
	if len(made) == 1 {
		err = reason(err)
	}
	return verdict.because(err)
}

// reason returns what went wrong in the only attempt, without the address,
// which is known.
func reason(err error) error {
	var refused *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &network):
		return network
	}
	return err
}

// attempts takes a joined error apart.
func attempts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// endsAttempts reports whether the server gave an answer behind which no other
// host is tried. It counts, whatever the hosts before have said.
func endsAttempts(err error) bool { return isCode(err, "28P01", "3D000", "42501") }

// attemptFault says what to do about one attempt.
func attemptFault(cc *pgx.ConnConfig, err error) *Fault {
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr):
		return refusedFault(cc, pgErr)
	case isTLSFault(err):
		return fault(ErrDenied, "cannot set up TLS with PostgreSQL at %s; check sslmode, sslrootcert, sslcert and sslkey in --dsn", hosts(cc))
	}
	return fault(ErrUnreachable, "cannot reach PostgreSQL at %s; check --dsn, the network, and that the server runs", hosts(cc))
}

// hosts lists the servers that the DSN names.
func hosts(cc *pgx.ConnConfig) string {
	names := []string{hostPort(cc.Host, cc.Port)}
	for _, f := range cc.Fallbacks {
		if name := hostPort(f.Host, f.Port); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// refusedFault says what to do about a server that answered and refused.
func refusedFault(cc *pgx.ConnConfig, err *pgconn.PgError) *Fault {
	switch err.Code {
	case "28P01", "28000":
		return fault(ErrDenied, "PostgreSQL refused user %q on database %q; check user and password, and pg_hba.conf", cc.User, cc.Database)
	case "42501":
		if cc.RuntimeParams["replication"] != "" {
			return fault(ErrDenied, "user %q may not connect for replication; as a superuser: ALTER ROLE %s REPLICATION", cc.User, quoteIdentifier(cc.User))
		}
		return fault(ErrDenied, "user %q may not connect to database %q; as its owner: GRANT CONNECT ON DATABASE %s TO %s",
			cc.User, cc.Database, quoteIdentifier(cc.Database), quoteIdentifier(cc.User))
	case "3D000":
		return fault(ErrSetup, "database %q does not exist; create it or correct --dsn", cc.Database)
	case "53300":
		return fault(ErrUnreachable, "PostgreSQL has no free connection; raise max_connections or max_wal_senders, or end connections that are not needed")
	case "08P01", "0A000":
		// PgBouncer gives the first for all that it refuses; others give the
		// second for the startup parameter.
		return poolerFault(hosts(cc))
	case "42704", "22023":
		return fault(ErrSetup, "PostgreSQL refused a setting; check the parameters in --dsn")
	}
	return fault(ErrUnreachable, "PostgreSQL at %s does not accept the connection", hosts(cc))
}

// poolerFault is a pooler where the server itself is needed.
func poolerFault(where string) *Fault {
	return fault(ErrSetup, "what answers at %s is a pooler, or something else that cannot replicate; name the PostgreSQL server itself in --dsn", where)
}

// mixedUp tells the errors of a pooler that gives one client's statements to
// another: a name that was prepared is there already, or is not there.
func mixedUp(where string, err error) error {
	var known *Fault
	if isCode(err, "42P05", "26000") && !errors.As(err, &known) {
		return poolerFault(where).because(err)
	}
	return err
}

func isTLSFault(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		alert        tls.AlertError
		header       tls.RecordHeaderError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &alert) || errors.As(err, &header) || strings.Contains(err.Error(), "server refused TLS connection")
}

package replication

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A connection may take several attempts: on each host, with and without TLS.
func TestConnectFaultWeighsTheAttempts(t *testing.T) {
	cc, err := pgx.ParseConfig("host=a,b port=1,2 user=relay dbname=shop sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(code string) error { return &pgconn.PgError{Severity: "FATAL", Code: code, Message: "no"} }
	noTLS, nobody := errors.New("tls error: server refused TLS connection"), errors.New("connection refused")
	for _, tt := range []struct {
		name     string
		attempts []error
		want     error
		says     string
	}{
		{"TLS is demanded and there is none", []error{noTLS}, ErrDenied, "a:1, b:2; check sslmode"},
		{"without TLS nobody answers either", []error{noTLS, nobody}, ErrUnreachable, "a:1, b:2; check --dsn"},
		{"without TLS the role is unknown", []error{noTLS, refused("28000")}, ErrDenied, "check user and password"},
		{"one host is down, the other one starts up", []error{nobody, refused("57P03")}, ErrUnreachable, "does not accept"},
		{"one host is down, the other one does not want us", []error{nobody, refused("28000")}, ErrUnreachable, "cannot reach"},
		{"one host does not want us, the other one is down", []error{refused("28000"), nobody}, ErrUnreachable, "cannot reach"},
		{"a wrong password counts, whoever else is down", []error{nobody, refused("28P01")}, ErrDenied, "check user and password"},
		{"a pooler on one host, a standby on the other", []error{refused("08P01"), errors.New("server is not in hot standby mode")}, ErrUnreachable, "cannot reach"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := connectFault(t.Context(), cc, errors.Join(tt.attempts...))
			if s := err.Error(); !errors.Is(err, tt.want) || !strings.Contains(s, tt.says) || strings.Contains(s, "\n") {
				t.Errorf("got %v, want %v and one line with %q", err, tt.want, tt.says)
			}
		})
	}
}

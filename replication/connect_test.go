package replication

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// refusing is a server that answers every connection with an error.
func refusing(t *testing.T, code string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(conn, conn)
			if _, err := b.ReceiveStartupMessage(); err == nil {
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: "no"})
				b.Flush()
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return listener.Addr().String()
}

func TestConnectSaysWhatToDoAboutARefusal(t *testing.T) {
	tests := []struct {
		code string
		want error
		hint string
	}{
		{"28P01", ErrDenied, "check user and password"},
		{"28000", ErrDenied, "pg_hba.conf"},
		{"42501", ErrDenied, `GRANT CONNECT ON DATABASE "shop" TO "relay"`},
		{"3D000", ErrSetup, `database "shop" does not exist`},
		{"53300", ErrUnreachable, "max_wal_senders"},
		{"08P01", ErrSetup, "pooler"},
		{"0A000", ErrSetup, "pooler"},
		{"42704", ErrSetup, "parameters in --dsn"},
		{"57P03", ErrUnreachable, "does not accept"},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			cfg := Config{DSN: "postgres://relay:geheim@" + refusing(t, tt.code) + "/shop?sslmode=disable"}
			_, err := cfg.Connect(t.Context())
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.hint) || !isCode(err, tt.code) {
				t.Errorf("got %v, want %v and %q", err, tt.want, tt.hint)
			}
			if s := err.Error(); strings.Contains(s, "\n") || strings.Contains(s, "geheim") {
				t.Errorf("not one line without a password: %q", s)
			}
		})
	}
}

func TestConnectToNobody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	_, err = Config{DSN: "postgres://" + addr + "/shop"}.Connect(t.Context())
	if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), "refused") != 1 {
		t.Errorf("got %v, want one line with the reason once", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Config{DSN: "postgres://" + addr + "/shop"}).Connect(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

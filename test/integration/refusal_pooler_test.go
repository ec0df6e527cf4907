//go:build linux || darwin

package integration

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// client is a connection to a pooler, whose startup message has been read.
type client struct {
	*pgproto3.Backend
	conn    net.Conn
	startup *pgproto3.StartupMessage
	server  string // the address that the pooler stands in front of
}

// newPooler has serve answer each client of the returned address.
func newPooler(t *testing.T, o *outbox, serve func(client) error) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				c := client{Backend: pgproto3.NewBackend(conn, conn), conn: conn, server: o.pg.Addr()}
				message, err := c.ReceiveStartupMessage()
				if err != nil {
					return
				}
				if startup, ok := message.(*pgproto3.StartupMessage); ok {
					c.startup = startup
					if err := serve(c); err != nil {
						t.Errorf("pooler: %v", err)
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// refuseParameter refuses a startup parameter as PgBouncer does with each that
// it does not know.
func refuseParameter(name string) func(client) error {
	return func(c client) error {
		if _, given := c.startup.Parameters[name]; !given {
			return passThrough(c)
		}
		c.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name})
		return c.Flush()
	}
}

// passThrough connects the client with the server and leaves out that it asked
// for replication, as PgBouncer does when told to ignore the parameter.
func passThrough(c client) error {
	delete(c.startup.Parameters, "replication")
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return err
	}
	defer server.Close()
	startup, err := c.startup.Encode(nil)
	if err != nil {
		return err
	}
	if _, err := server.Write(startup); err != nil {
		return err
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		io.Copy(server, c.conn)
		server.Close()
	})
	io.Copy(c.conn, server)
	c.conn.Close()
	asking.Wait()
	return nil
}

// mixUp has the client meet the prepared statement of another one, as in a pool
// where transactions of all clients share the server's sessions.
func mixUp(c client) error {
	c.Send(&pgproto3.AuthenticationOk{})
	c.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	c.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for {
		if err := c.Flush(); err != nil {
			return nil
		}
		message, err := c.Receive()
		if err != nil {
			return nil
		}
		switch message := message.(type) {
		case *pgproto3.Parse:
			c.Send(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "42P05",
				Message: "prepared statement \"" + message.Name + "\" already exists"})
		case *pgproto3.Sync:
			c.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Terminate:
			return nil
		}
	}
}

// TestRefusalOfAPooler leads the relay to a pooler instead of the server, which
// answers in each of the ways in which a PgBouncer was seen to.
//
// Behaviours: S20
func TestRefusalOfAPooler(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	o.insert(1)
	for _, c := range []struct {
		name  string
		serve func(client) error
		text  string
	}{
		{"that knows no replication", refuseParameter("replication"), "unsupported startup parameter: replication"},
		{"that knows hardly a parameter", refuseParameter("intervalstyle"), "unsupported startup parameter: intervalstyle"},
		{"that ignores what it does not know", passThrough, "IDENTIFY_SYSTEM"},
		{"that pools transactions", mixUp, "prepared statement"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o.t = t
			addr := newPooler(t, o, c.serve)
			refusal{
				flags: args("--dsn", o.at(addr)), code: exitUsage,
				texts: []string{addr + " is a pooler", "name the PostgreSQL server itself in --dsn", c.text},
			}.check(t, o)
		})
	}
	o.t = t
	o.start()
	o.awaitDrained()
	o.verify()
}

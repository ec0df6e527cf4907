package replication

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// walsender is a scripted server on a loopback socket: it accepts replication
// connections and answers the commands with which a session begins.
type walsender struct {
	t         *testing.T
	listener  net.Listener
	accepting sync.Once
	wg        sync.WaitGroup

	systemID string
	// slots holds what each look at the slot finds; the last one stays.
	slots chan Slot
	last  atomic.Pointer[Slot]
	// refuse holds the errors that START_REPLICATION is answered with before
	// it succeeds.
	refuse chan *pgproto3.ErrorResponse
	// unanswered is what queries begin with that get no answer.
	unanswered string
	// stream is sent in one piece with the beginning of the stream.
	stream []byte
	// rest is sent behind it, piece by piece.
	rest chan []byte
	// reported takes the status updates, as far as somebody waits for them.
	reported chan struct{}
	starts   atomic.Int32
	// tls, if set, is offered to the client.
	tls *tls.Config
	// parameters are those of the last startup message.
	parameters atomic.Pointer[map[string]string]
}

// goodSlot is one that can be streamed from.
func goodSlot() Slot {
	return Slot{Name: "orders", Plugin: "pgoutput", Type: "logical", Database: "shop", CurrentDatabase: "shop",
		WALStatus: "reserved", Restart: 0x800, Confirmed: slotPosition}
}

func newWalsender(t *testing.T, slots ...Slot) *walsender {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &walsender{t: t, listener: listener, systemID: "7", slots: make(chan Slot, 10),
		refuse: make(chan *pgproto3.ErrorResponse, 10), reported: make(chan struct{})}
	for _, s := range slots {
		w.slots <- s
	}
	t.Cleanup(func() {
		listener.Close()
		w.wg.Wait()
	})
	return w
}

// accept serves every connection until the test ends.
func (w *walsender) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.wg.Go(func() {
			defer conn.Close()
			secured, err := w.secure(conn)
			if err == nil {
				err = w.serve(pgproto3.NewBackend(secured, secured), secured)
			}
			if err != nil {
				w.t.Errorf("walsender: %v", err)
			}
		})
	}
}

// secure answers the request for TLS, if there is to be one.
func (w *walsender) secure(conn net.Conn) (net.Conn, error) {
	if w.tls == nil {
		return conn, nil
	}
	var request [8]byte
	if _, err := io.ReadFull(conn, request[:]); err != nil {
		return nil, err
	}
	_, err := conn.Write([]byte{'S'})
	return tls.Server(conn, w.tls), err
}

// serve speaks the protocol until the client leaves.
func (w *walsender) serve(b *pgproto3.Backend, conn net.Conn) error {
	startup, err := b.ReceiveStartupMessage()
	if err != nil {
		return nil
	}
	if start, ok := startup.(*pgproto3.StartupMessage); ok {
		w.parameters.Store(&start.Parameters)
	} else {
		return nil // a command is to be cancelled
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 4711, SecretKey: []byte{1, 2, 3, 4}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for {
		if err := b.Flush(); err != nil {
			return nil
		}
		msg, err := b.Receive()
		if err != nil {
			return nil
		}
		switch msg := msg.(type) {
		case *pgproto3.Query:
			if err := w.query(b, conn, msg.String); err != nil {
				return err
			}
		case *pgproto3.CopyData:
			select {
			case w.reported <- struct{}{}:
			default:
			}
		case *pgproto3.CopyDone, *pgproto3.Terminate:
		default:
			return fmt.Errorf("unexpected %T", msg)
		}
	}
}

func (w *walsender) query(b *pgproto3.Backend, conn net.Conn, sql string) error {
	switch {
	case w.unanswered != "" && strings.HasPrefix(sql, w.unanswered):
	case sql == "IDENTIFY_SYSTEM":
		w.row(b, w.systemID, "1", "0/3000", "shop")
	case strings.HasPrefix(sql, slotColumns):
		w.slot(b)
	case strings.HasPrefix(sql, "START_REPLICATION"):
		w.starts.Add(1)
		select {
		case refused := <-w.refuse:
			b.Send(refused)
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			return nil
		default:
		}
		if want := `START_REPLICATION SLOT "orders" LOGICAL 0/0 (proto_version '1', publication_names '"it''s"')`; sql != want {
			return fmt.Errorf("got %s\nwant %s", sql, want)
		}
		begin, err := (&pgproto3.CopyBothResponse{}).Encode(nil)
		if err != nil {
			return err
		}
		if _, err = conn.Write(append(begin, w.stream...)); err != nil || w.rest == nil {
			return err
		}
		w.wg.Go(func() {
			for piece := range w.rest {
				conn.Write(piece)
			}
		})
		return nil
	default:
		return fmt.Errorf("unexpected query %s", sql)
	}
	return nil
}

// slot answers a look at the slot.
func (w *walsender) slot(b *pgproto3.Backend) {
	select {
	case s := <-w.slots:
		w.last.Store(&s)
	default:
	}
	s := w.last.Load()
	if s.Name == "" {
		w.row(b)
		return
	}
	w.row(b, s.Name, s.Plugin, s.Type, s.Database, s.CurrentDatabase, fmt.Sprint(s.Temporary), fmt.Sprint(s.TwoPhase),
		fmt.Sprint(s.Failover), fmt.Sprint(s.Synced), fmt.Sprint(s.ActivePID), "", s.WALStatus, s.InvalidationReason,
		s.Restart.String(), s.Confirmed.String(), "false", "0", "0", "", "0", fmt.Sprint(s.OnStandby), "")
}

// row answers a query with one row of text, or none.
func (w *walsender) row(b *pgproto3.Backend, values ...string) {
	description := &pgproto3.RowDescription{}
	row := &pgproto3.DataRow{}
	for _, v := range values {
		description.Fields = append(description.Fields, pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: 25, DataTypeSize: -1})
		row.Values = append(row.Values, []byte(v))
	}
	b.Send(description)
	if len(values) > 0 {
		b.Send(row)
	}
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
}

// config is one for the walsender's slot. From the first time on the fields
// of the walsender stay as they are.
func (w *walsender) config() Config {
	w.accepting.Do(func() { w.wg.Go(w.accept) })
	dsn := fmt.Sprintf("postgres://relay@%s/shop?sslmode=disable", w.listener.Addr())
	return Config{DSN: dsn, Slot: "orders", Publication: "it's"}
}

func (w *walsender) server() *Server {
	return &Server{SystemID: w.systemID, Tables: nil, Slot: goodSlot()}
}

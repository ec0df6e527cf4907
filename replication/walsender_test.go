package replication

import (
	"fmt"
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
	listener net.Listener
	wg       sync.WaitGroup

	systemID string
	// slots holds what each look at the slot finds; the last one stays.
	slots chan Slot
	last  atomic.Pointer[Slot]
	// refuse holds the errors that START_REPLICATION is answered with before
	// it succeeds.
	refuse chan *pgproto3.ErrorResponse
	// stream is sent in one piece with the beginning of the stream.
	stream []byte
	starts atomic.Int32
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
	w := &walsender{listener: listener, systemID: "7", slots: make(chan Slot, 10), refuse: make(chan *pgproto3.ErrorResponse, 10)}
	for _, s := range slots {
		w.slots <- s
	}
	w.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() {
				defer conn.Close()
				if err := w.serve(pgproto3.NewBackend(conn, conn), conn); err != nil {
					t.Errorf("walsender: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		w.wg.Wait()
	})
	return w
}

func (w *walsender) dsn() string {
	return fmt.Sprintf("postgres://relay@%s/shop?sslmode=disable", w.listener.Addr())
}

// serve speaks the protocol until the client leaves.
func (w *walsender) serve(b *pgproto3.Backend, conn net.Conn) error {
	startup, err := b.ReceiveStartupMessage()
	if err != nil {
		return nil
	}
	parameters := startup.(*pgproto3.StartupMessage).Parameters
	w.parameters.Store(&parameters)
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
		case *pgproto3.CopyData, *pgproto3.CopyDone, *pgproto3.Terminate:
		default:
			return fmt.Errorf("unexpected %T", msg)
		}
	}
}

func (w *walsender) query(b *pgproto3.Backend, conn net.Conn, sql string) error {
	switch {
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
		_, err = conn.Write(append(begin, w.stream...))
		return err
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
		fmt.Sprint(s.Failover), fmt.Sprint(s.Synced), fmt.Sprint(s.ActivePID), s.WALStatus, s.InvalidationReason,
		s.Restart.String(), s.Confirmed.String(), "0", "0", "")
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

// config is one for the walsender's slot.
func (w *walsender) config() Config {
	return Config{DSN: w.dsn(), Slot: "orders", Publication: "it's"}
}

func (w *walsender) server() Server {
	return Server{SystemID: w.systemID, Tables: nil, Slot: goodSlot()}
}

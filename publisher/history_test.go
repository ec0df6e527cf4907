package publisher

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// history is what a database has committed, as its slot would send it: again
// and again from the confirmed position.
type history struct {
	transactions []transaction

	mu        sync.Mutex // guards confirmed
	confirmed pglogrepl.LSN
}

type transaction struct {
	commit, end pglogrepl.LSN
	at          time.Time
	events      []event
}

// event is a row; a nil column is NULL.
type event struct {
	id, aggregateType, aggregateID, eventType, payload, metadata any
}

// order is an event of an aggregate of type "order".
func order(id, aggregate string) event {
	return event{id: id, aggregateType: "order", aggregateID: aggregate, eventType: "OrderPlaced", payload: `{"id":"` + id + `"}`}
}

const testTopic = "outbox.event.order"

// commit adds a transaction.
func (h *history) commit(events ...event) {
	start := pglogrepl.LSN(0x1000000)
	if n := len(h.transactions); n > 0 {
		start = h.transactions[n-1].end
	}
	h.transactions = append(h.transactions, transaction{
		commit: start + 0x100, end: start + 0x140, at: time.Now().Truncate(time.Microsecond), events: events,
	})
}

// end is the server's position.
func (h *history) end() pglogrepl.LSN { return h.transactions[len(h.transactions)-1].end }

func (h *history) confirm(m checkpoint.Mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirmed = max(h.confirmed, m.LSN)
}

func (h *history) slot() pglogrepl.LSN {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.confirmed
}

// stream sends what has not been confirmed, then closes out.
func (h *history) stream(ctx context.Context, out chan<- *decoder.Chunk) {
	defer close(out)
	from := h.slot()
	pool := decoder.NewPool()
	d := decoder.New([]decoder.Table{{Schema: "public", Name: "outbox_events"}})
	chunk := pool.Get()
	decode := func(message []byte) {
		if err := d.Decode(message, chunk); err != nil {
			panic(err)
		}
	}
	decode(relationMessage())
	for _, tx := range h.transactions {
		if tx.commit < from {
			continue
		}
		decode(beginMessage(tx))
		for _, e := range tx.events {
			decode(insertMessage(e))
		}
		decode(commitMessage(tx))
		select {
		case out <- chunk:
			chunk = pool.Get()
		case <-ctx.Done():
			return
		}
	}
}

const pgEpoch = 946684800000000

func beginMessage(tx transaction) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'B'}, uint64(tx.commit))
	b = binary.BigEndian.AppendUint64(b, uint64(tx.at.UnixMicro()-pgEpoch))
	return binary.BigEndian.AppendUint32(b, 1)
}

func commitMessage(tx transaction) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, uint64(tx.commit))
	b = binary.BigEndian.AppendUint64(b, uint64(tx.end))
	return binary.BigEndian.AppendUint64(b, uint64(tx.at.UnixMicro()-pgEpoch))
}

type column struct {
	name string
	oid  uint32
}

func relationMessage(more ...column) []byte {
	columns := []column{{"id", 2950}, {"aggregate_type", 25}, {"aggregate_id", 25}, {"event_type", 25}, {"payload", 3802}, {"metadata", 3802}}
	return relationOf("public", "outbox_events", append(columns, more...)...)
}

// relationOf describes a table of any name and shape.
func relationOf(schema, table string, columns ...column) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'R'}, 1)
	b = append(append(append(b, schema...), 0), table...)
	b = append(b, 0, 'd')
	b = binary.BigEndian.AppendUint16(b, uint16(len(columns)))
	for _, c := range columns {
		b = append(append(append(b, 0), c.name...), 0)
		b = binary.BigEndian.AppendUint32(b, c.oid)
		b = binary.BigEndian.AppendUint32(b, 0xffffffff)
	}
	return b
}

func insertMessage(e event, more ...any) []byte {
	return rowMessage(append([]any{e.id, e.aggregateType, e.aggregateID, e.eventType, e.payload, e.metadata}, more...)...)
}

// rowMessage inserts any row; nil is NULL.
func rowMessage(values ...any) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'I'}, 1)
	b = binary.BigEndian.AppendUint16(append(b, 'N'), uint16(len(values)))
	for _, v := range values {
		if v == nil {
			b = append(b, 'n')
			continue
		}
		s := fmt.Sprint(v)
		b = append(binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(s))), s...)
	}
	return b
}

// testOwner says that the slot is ours, until it is told otherwise.
type testOwner struct {
	history *history
	lost    error
}

func (o *testOwner) Prove(ctx context.Context) (time.Time, error) { return time.Now(), o.lost }

func (o *testOwner) WALEnd(ctx context.Context) (pglogrepl.LSN, error) { return o.history.end(), nil }

func (o *testOwner) Limit() time.Duration { return 10 * time.Second }

// letters keeps dead letters.
type letters struct {
	mu     sync.Mutex // guards stored
	stored map[decoder.Position]Reason
}

func (l *letters) store(_ context.Context, letter DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stored == nil {
		l.stored = make(map[decoder.Position]Reason)
	}
	l.stored[letter.Position] = letter.Poison.Reason
	return nil
}

// reasons returns the reasons of the letters by position.
func (l *letters) reasons() map[decoder.Position]Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.stored)
}

// session returns a session over h.
func (h *history) session(entries <-chan *decoder.Chunk, l *letters) Session {
	return Session{
		SystemID: "7000", Slot: "test", Stream: "pub",
		Owner: &testOwner{history: h}, Entries: entries, Confirm: h.confirm, DeadLetter: l.store,
	}
}

// publish runs one session over h to its end or until ctx ends.
func (h *history) publish(ctx context.Context, t *testing.T, p *Publisher, l *letters) error {
	t.Helper()
	entries := make(chan *decoder.Chunk, 4)
	streaming, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.stream(streaming, entries)
	}()
	err := p.Run(ctx, h.session(entries, l))
	stop()
	<-done
	return err
}

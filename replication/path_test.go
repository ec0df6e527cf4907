package replication

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// noDeadline is a connection for a reader whose bytes come from elsewhere.
type noDeadline struct{ net.Conn }

func (noDeadline) SetReadDeadline(time.Time) error { return nil }

// A row costs no allocation on its way from the socket to the publisher.
func TestRowsCostNoAllocation(t *testing.T) {
	const rows = 1000
	source := bytes.NewReader(nil)
	r := &reader{conn: noDeadline{}, source: source, buf: make([]byte, readBytes)}
	s := newStream(Config{}, Server{Tables: []decoder.Table{outboxTable}}, r, slotPosition, decoder.NewPool())
	out := make(chan *decoder.Chunk, rows)
	events := 0
	round := func(stream []byte) {
		source.Reset(stream)
		for source.Len() > 0 {
			if _, err := r.fill(t.Context(), time.Time{}); err != nil {
				t.Fatal(err)
			}
			if err := s.drain(t.Context(), out, func() pglogrepl.LSN { return 0 }); err != nil {
				t.Fatal(err)
			}
			for len(out) > 0 {
				chunk := <-out
				events += len(chunk.Entries) - 1
				chunk.Release()
			}
		}
	}
	round(relationMessage())
	stream := transaction(0x2000, rows, 300)
	round(stream) // buffers grow
	events = 0
	if got := testing.AllocsPerRun(10, func() { round(stream) }) / rows; got > 0.1 {
		t.Errorf("%.2f allocations a row, want next to none", got)
	}
	if events < 10*rows {
		t.Errorf("%d events came, want at least %d", events, 10*rows)
	}
}

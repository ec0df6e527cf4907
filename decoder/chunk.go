package decoder

import (
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
)

// chunkBytes is the size of a chunk's arena: what the reader hands over at once,
// 64 KiB, and some more for the row that makes it so. Larger rows get memory of
// their own.
const chunkBytes = 80 << 10

// Entry is one element of the stream: an event, or a marker. The order of
// entries is the contract: a marker covers exactly what is ahead of it.
type Entry struct {
	// Row is the event, the zero Row for a marker.
	Row Row
	// Position is the event's.
	Position Position
	// Marker, if not 0, is the position up to which everything ahead is
	// complete: the end of a transaction, or the server's position in a
	// keepalive between transactions.
	Marker pglogrepl.LSN
	// CommitTime belongs to a marker: when the newest transaction that it
	// completes and that held an event was committed; zero if none did.
	CommitTime time.Time
}

// Chunk is a run of consecutive entries with the memory of their rows. It
// passes from the reader to the publisher, which releases it.
type Chunk struct {
	Entries []Entry

	arena []byte
	large int // bytes of rows outside the arena
	pool  *Pool
}

// Bytes returns the size of the rows that the chunk holds.
func (c *Chunk) Bytes() int { return len(c.arena) + c.large }

// Release gives the chunk back to its pool. Its entries and their rows are
// invalid from then on.
func (c *Chunk) Release() {
	clear(c.Entries)
	c.Entries = c.Entries[:0]
	c.arena = c.arena[:0]
	c.large = 0
	c.pool.chunks.Put(c)
}

// event appends an event; the row is copied.
func (c *Chunk) event(row Row, p Position) {
	if free := cap(c.arena) - len(c.arena); row.Bytes() <= free {
		row, c.arena = row.AppendTo(c.arena)
	} else {
		c.large += row.Bytes()
		row, _ = row.AppendTo(make([]byte, 0, row.Bytes()))
	}
	c.Entries = append(c.Entries, Entry{Row: row, Position: p})
}

// mark appends a marker. Behind another marker it replaces it, so that a busy
// cluster with a quiet outbox costs one entry.
func (c *Chunk) mark(lsn pglogrepl.LSN, commitTime time.Time) {
	if lsn == 0 {
		return
	}
	if n := len(c.Entries); n > 0 && c.Entries[n-1].Marker != 0 {
		last := &c.Entries[n-1]
		last.Marker = max(last.Marker, lsn)
		if !commitTime.IsZero() {
			last.CommitTime = commitTime
		}
		return
	}
	c.Entries = append(c.Entries, Entry{Marker: lsn, CommitTime: commitTime})
}

// Pool recycles chunks. It may be used by any goroutine.
type Pool struct{ chunks sync.Pool }

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{} }

// Get returns an empty chunk.
func (p *Pool) Get() *Chunk {
	if c, ok := p.chunks.Get().(*Chunk); ok {
		return c
	}
	return &Chunk{arena: make([]byte, 0, chunkBytes), pool: p}
}

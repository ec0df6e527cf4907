package decoder

import (
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"
)

// The server's bytes are overwritten by its next message.
func TestRowsDoNotAliasTheMessage(t *testing.T) {
	d, c := New([]Table{outbox}), NewPool().Get()
	large := strings.Repeat("x", 2*chunkBytes)
	for _, msg := range [][]byte{
		beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"), outboxInsert(large), outboxInsert("b"),
		commitMessage(0x500, 0x530),
	} {
		decodeAll(t, d, c, msg)
		for i := range msg {
			msg[i] = 0xaa
		}
	}
	compareEntries(t, entriesOf(c), []entry{
		outboxEvent(positionOf(0x500, 0), "a"), outboxEvent(positionOf(0x500, 1), large), outboxEvent(positionOf(0x500, 2), "b"),
		marker(0x530, commitTimeOf(0x500)),
	})
}

func TestChunkCountsRowsInsideAndOutsideOfItsArena(t *testing.T) {
	d, c := New([]Table{outbox}), NewPool().Get()
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation())
	if got := c.Bytes(); got != 0 {
		t.Errorf("of no rows: got %d, want 0", got)
	}
	var want []entry
	bytes := 0
	for i, id := range []string{
		"small", strings.Repeat("l", 10*chunkBytes), "behind a large one", strings.Repeat("h", chunkBytes/2),
		strings.Repeat("n", chunkBytes/2), "last",
	} {
		decodeAll(t, d, c, outboxInsert(id))
		want = append(want, outboxEvent(positionOf(0x500, uint32(i)), id))
		bytes += len(outboxInsert(id)) - (1 + 4 + 1) // type, OID, 'N'
		if got := c.Bytes(); got != bytes {
			t.Errorf("after row %d: got %d, want %d", i, got, bytes)
		}
	}
	compareEntries(t, entriesOf(c), want)
	if cap(c.arena) != chunkBytes {
		t.Errorf("arena: got %d bytes, want %d", cap(c.arena), chunkBytes)
	}
}

func TestChunkIsEmptyAfterRelease(t *testing.T) {
	d, pool := New([]Table{outbox}), NewPool()
	c := pool.Get()
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation())
	for range 100 {
		decodeAll(t, d, c, outboxInsert("a"), outboxInsert(strings.Repeat("l", chunkBytes)))
		kept := c.Entries
		c.Release()
		for i, e := range kept {
			if e.Row.Relation() != nil || e.Row.Bytes() != 0 {
				t.Fatalf("entry %d after Release: got a row of %d bytes, want none", i, e.Row.Bytes())
			}
		}
		c = pool.Get()
		if len(c.Entries) != 0 || c.Bytes() != 0 {
			t.Fatalf("got a chunk of %d entries and %d bytes, want an empty one", len(c.Entries), c.Bytes())
		}
	}
	decodeAll(t, d, c, outboxInsert("b"), commitMessage(0x500, 0x530))
	compareEntries(t, entriesOf(c), []entry{
		outboxEvent(positionOf(0x500, 200), "b"), marker(0x530, commitTimeOf(0x500)),
	})
}

func TestChunksOfOnePoolAreApart(t *testing.T) {
	d, pool := New([]Table{outbox}), NewPool()
	first := pool.Get()
	decodeAll(t, d, first, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"))
	second := pool.Get()
	decodeAll(t, d, second, outboxInsert("b"))
	second.Release()
	third := pool.Get()
	decodeAll(t, d, third, outboxInsert("c"))
	compareEntries(t, entriesOf(first), []entry{outboxEvent(positionOf(0x500, 0), "a")})
	compareEntries(t, entriesOf(third), []entry{outboxEvent(positionOf(0x500, 2), "c")})
}

// A row that was appended to another buffer outlives its chunk.
func TestRowAppendTo(t *testing.T) {
	d, c := New([]Table{outbox}), NewPool().Get()
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"), outboxInsert("b"))
	b := []byte("in front")
	first, b := c.Entries[0].Row.AppendTo(b)
	second, b := c.Entries[1].Row.AppendTo(b)
	if want := len("in front") + first.Bytes() + second.Bytes(); len(b) != want {
		t.Errorf("got %d bytes, want %d", len(b), want)
	}
	clear(c.arena)
	c.Release()
	// The end of a row is the end of its capacity: growing it copies.
	_ = append(first.tuple, "overwritten"...)
	for i, row := range []Row{first, second} {
		want := outboxEvent(Position{}, []string{"a", "b"}[i])
		got := entriesOf(&Chunk{Entries: []Entry{{Row: row}}})
		compareEntries(t, got, []entry{want})
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	begin, relation, commit := beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), commitMessage(0x500, 0x530)
	other := relationMessage(77, "public", "other", "id")
	row, otherRow := outboxInsert("a"), insertMessage(77, "x")
	d, c := New([]Table{outbox}), NewPool().Get()
	transaction := func(lsn pglogrepl.LSN) {
		d.Keepalive(lsn, c)
		decodeAll(t, d, c, begin)
		for range 100 {
			decodeAll(t, d, c, row, otherRow)
		}
		decodeAll(t, d, c, commit)
		for _, e := range c.Entries {
			if e.Row.Relation() != nil {
				e.Row.Field(FieldPayload)
				e.Row.Columns(func(Column, []byte) bool { return true })
			}
		}
		// What Release and Get do, without the pool, which may forget a chunk.
		clear(c.Entries)
		c.Entries, c.arena = c.Entries[:0], c.arena[:0]
	}
	decodeAll(t, d, c, begin, relation, other, commit)
	transaction(1)
	if got := testing.AllocsPerRun(100, func() { transaction(2) }); got != 0 {
		t.Errorf("got %v allocations in a transaction of 200 rows, want 0", got)
	}
}

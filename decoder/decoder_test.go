package decoder

import (
	"testing"

	"github.com/jackc/pglogrepl"
)

func TestDecodeTransactions(t *testing.T) {
	begin := func(lsn pglogrepl.LSN) []byte { return beginMessage(lsn, commitTimeOf(lsn)) }
	other := relationMessage(77, "public", "other", "id")
	for _, tt := range []struct {
		name     string
		messages [][]byte
		want     []entry
	}{
		{
			name:     "one row",
			messages: [][]byte{begin(0x500), outboxRelation(), outboxInsert("a"), commitMessage(0x500, 0x530)},
			want:     []entry{outboxEvent(positionOf(0x500, 0), "a"), marker(0x530, commitTimeOf(0x500))},
		},
		{
			name: "the index starts over in each transaction",
			messages: [][]byte{
				begin(0x500), outboxRelation(), outboxInsert("a"), outboxInsert("b"), commitMessage(0x500, 0x530),
				begin(0x600), outboxInsert("c"), commitMessage(0x600, 0x630),
			},
			want: []entry{
				outboxEvent(positionOf(0x500, 0), "a"), outboxEvent(positionOf(0x500, 1), "b"),
				marker(0x530, commitTimeOf(0x500)),
				outboxEvent(positionOf(0x600, 0), "c"), marker(0x630, commitTimeOf(0x600)),
			},
		},
		{
			name: "a row of another table takes an index",
			messages: [][]byte{
				begin(0x500), other, insertMessage(77, "x"), outboxRelation(), outboxInsert("a"),
				insertMessage(77, "y"), outboxInsert("b"), commitMessage(0x500, 0x530),
			},
			want: []entry{
				outboxEvent(positionOf(0x500, 1), "a"), outboxEvent(positionOf(0x500, 3), "b"),
				marker(0x530, commitTimeOf(0x500)),
			},
		},
		{
			name: "a transactional message takes an index",
			messages: [][]byte{
				begin(0x500), logicalMessage(true, "x"), outboxRelation(), outboxInsert("a"), commitMessage(0x500, 0x530),
			},
			want: []entry{outboxEvent(positionOf(0x500, 1), "a"), marker(0x530, commitTimeOf(0x500))},
		},
		{
			name: "a message outside of transactions takes none",
			messages: [][]byte{
				logicalMessage(false, "x"), begin(0x500), logicalMessage(false, ""), outboxRelation(), outboxInsert("a"),
				commitMessage(0x500, 0x530), logicalMessage(false, "y"),
			},
			want: []entry{outboxEvent(positionOf(0x500, 0), "a"), marker(0x530, commitTimeOf(0x500))},
		},
		{
			name: "what is not an insert is ignored",
			messages: [][]byte{
				begin(0x500), []byte("Oorigin"), []byte("Ytype"), outboxRelation(), []byte("Uupdate"), []byte("Ddelete"),
				[]byte("Ttruncate"), outboxInsert("a"), commitMessage(0x500, 0x530),
			},
			want: []entry{outboxEvent(positionOf(0x500, 0), "a"), marker(0x530, commitTimeOf(0x500))},
		},
		{
			name:     "a transaction without rows has a position and no time",
			messages: [][]byte{begin(0x500), commitMessage(0x500, 0x530)},
			want:     []entry{keepaliveMarker(0x530)},
		},
		{
			name: "a transaction without a row of ours has a position and no time",
			messages: [][]byte{
				begin(0x500), other, insertMessage(77, "x"), logicalMessage(true, "x"), commitMessage(0x500, 0x530),
			},
			want: []entry{keepaliveMarker(0x530)},
		},
		{
			name: "the marker of a transaction without rows keeps the time of the one before",
			messages: [][]byte{
				begin(0x500), outboxRelation(), outboxInsert("a"), commitMessage(0x500, 0x530),
				begin(0x600), commitMessage(0x600, 0x630),
			},
			want: []entry{outboxEvent(positionOf(0x500, 0), "a"), marker(0x630, commitTimeOf(0x500))},
		},
		{
			name:     "NULL and the empty text differ",
			messages: [][]byte{begin(0x500), outboxRelation(), insertMessage(outboxOID, "a", "", "", nil, nil), commitMessage(0x500, 0x530)},
			want: []entry{
				{
					Position: positionOf(0x500, 0), Table: outbox, Relation: "public.outbox_events",
					Columns: []column{
						col("id", "a"), col("aggregate_type", ""), col("aggregate_id", ""), null("event_type"), null("payload"),
					},
				},
				marker(0x530, commitTimeOf(0x500)),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, c := New([]Table{outbox}), NewPool().Get()
			decodeAll(t, d, c, tt.messages...)
			compareEntries(t, entriesOf(c), tt.want)
			if d.InTransaction() {
				t.Error("got an open transaction, want none")
			}
		})
	}
}

func TestKeepalive(t *testing.T) {
	event := outboxEvent(positionOf(0x500, 0), "a")
	for _, tt := range []struct {
		name string
		run  func(d *Decoder, c *Chunk)
		want []entry
	}{
		{
			name: "between transactions",
			run:  func(d *Decoder, c *Chunk) { d.Keepalive(0x400, c) },
			want: []entry{keepaliveMarker(0x400)},
		},
		{
			name: "a thousand between transactions are one marker",
			run: func(d *Decoder, c *Chunk) {
				for lsn := range pglogrepl.LSN(1000) {
					d.Keepalive(lsn, c)
				}
			},
			want: []entry{keepaliveMarker(999)},
		},
		{
			name: "at zero is no position",
			run:  func(d *Decoder, c *Chunk) { d.Keepalive(0, c) },
		},
		{
			name: "does not go back",
			run: func(d *Decoder, c *Chunk) {
				d.Keepalive(0x400, c)
				d.Keepalive(0x300, c)
			},
			want: []entry{keepaliveMarker(0x400)},
		},
		{
			name: "inside a transaction",
			run: func(d *Decoder, c *Chunk) {
				decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)))
				d.Keepalive(0x500, c)
				decodeAll(t, d, c, outboxRelation(), outboxInsert("a"))
				d.Keepalive(0x500, c)
			},
			want: []entry{event},
		},
		{
			name: "behind a commit moves its marker and keeps its time",
			run: func(d *Decoder, c *Chunk) {
				decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"), commitMessage(0x500, 0x530))
				d.Keepalive(0x700, c)
			},
			want: []entry{event, marker(0x700, commitTimeOf(0x500))},
		},
		{
			name: "in front of a transaction stays in front of its events",
			run: func(d *Decoder, c *Chunk) {
				d.Keepalive(0x400, c)
				decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"), commitMessage(0x500, 0x530))
			},
			want: []entry{keepaliveMarker(0x400), event, marker(0x530, commitTimeOf(0x500))},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, c := New([]Table{outbox}), NewPool().Get()
			tt.run(d, c)
			compareEntries(t, entriesOf(c), tt.want)
		})
	}
}

// A transaction that is handed over in parts keeps its index and its time.
func TestTransactionAcrossChunks(t *testing.T) {
	d, pool := New([]Table{outbox}), NewPool()
	first, second := pool.Get(), pool.Get()
	decodeAll(t, d, first, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"))
	if !d.InTransaction() {
		t.Error("in a transaction: got false, want true")
	}
	decodeAll(t, d, second, outboxInsert("b"), commitMessage(0x500, 0x530))
	compareEntries(t, entriesOf(first), []entry{outboxEvent(positionOf(0x500, 0), "a")})
	compareEntries(t, entriesOf(second), []entry{
		outboxEvent(positionOf(0x500, 1), "b"), marker(0x530, commitTimeOf(0x500)),
	})
}

// PostgreSQL counts from 2000, and a clock may have been wrong.
func TestCommitTime(t *testing.T) {
	for _, tt := range []struct{ name, at string }{
		{"now", "2026-11-30T17:11:01.662499Z"},
		{"the epoch of PostgreSQL", "2000-01-01T00:00:00Z"},
		{"before 1970", "1969-12-31T23:59:59.999999Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := goldenTime(t, tt.at)
			d, c := New([]Table{outbox}), NewPool().Get()
			decodeAll(t, d, c, beginMessage(0x500, at), outboxRelation(), outboxInsert("a"), commitMessage(0x500, 0x530))
			if got := c.Entries[0].Position.CommitTime; got != at.UnixMicro() {
				t.Errorf("event: got %d, want %d", got, at.UnixMicro())
			}
			if got := c.Entries[1].CommitTime; !got.Equal(at) {
				t.Errorf("marker: got %s, want %s", got, at)
			}
		})
	}
}

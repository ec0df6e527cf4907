package decoder

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestDecodeMalformed(t *testing.T) {
	begin, commit := beginMessage(0x600, commitTimeOf(0x600)), commitMessage(0x500, 0x530)
	for _, tt := range []struct {
		name    string
		outside bool // of a transaction
		msg     []byte
		want    string // the end of the error
	}{
		{"no bytes", false, nil, "type 0x00"},
		{"unknown type", false, []byte{0xff, 1}, "type 0xff"},
		{"streamed transaction", true, []byte("S\x00\x00\x00\x01\x01"), "type 0x53"},
		{"prepared transaction", true, []byte("P"), "type 0x50"},
		{"message of the layer below", true, []byte("k"), "type 0x6b"},
		{"Begin inside a transaction", false, begin, "Begin inside a transaction"},
		{"Begin without a commit LSN", true, beginMessage(0, commitTimeOf(0)), "Begin without a commit LSN"},
		{"Commit outside a transaction", true, commit, "Commit outside a transaction"},
		{
			"Commit of another transaction", false, commitMessage(0x501, 0x530),
			"Commit at 0/501 with end 0/530 in the transaction of 0/500",
		},
		{
			"Commit that ends where it starts", false, commitMessage(0x500, 0x500),
			"Commit at 0/500 with end 0/500 in the transaction of 0/500",
		},
		{"Commit without an end", false, commitMessage(0x500, 0), "Commit at 0/500 with end 0/0 in the transaction of 0/500"},
		{"Insert outside a transaction", true, outboxInsert("a"), "Insert outside a transaction"},
		{"Insert into a relation that was not sent", false, insertMessage(99, "a"), "Insert into unknown relation 99"},
		{
			"row with a column too few", false, insertMessage(outboxOID, "a", "b", "c", "d"),
			`Insert of 4 columns into "public"."outbox_events", which has 5`,
		},
		{
			"row with a column too many", false, insertMessage(outboxOID, "a", "b", "c", "d", "e", "f"),
			`Insert of 6 columns into "public"."outbox_events", which has 5`,
		},
		{"row without columns", false, insertMessage(outboxOID), `Insert of 0 columns into "public"."outbox_events", which has 5`},
		{"old row in place of the new", false, []byte("I\x00\x00\x40\x01O\x00\x00"), "Insert without a new tuple"},
		{"row within a stream", false, append([]byte("I\x00\x00\x02\xe6"), outboxInsert("a")[1:]...), "Insert without a new tuple"},
		{"binary column", false, insertMessage(outboxOID, "a", "b", "c", "d", []byte("b\x00\x00\x00\x01e")), "type 'I' of 38 bytes"},
		{"unchanged column", false, insertMessage(outboxOID, "a", "b", "c", "d", []byte("u")), "type 'I' of 33 bytes"},
		{"unknown kind of column", false, insertMessage(outboxOID, []byte("x"), "b", "c", "d", "e"), "type 'I' of 33 bytes"},
		{
			"column that claims 4 GB", false, insertMessage(outboxOID, "a", "b", "c", "d", []byte("t\xff\xff\xff\xffe")),
			"type 'I' of 38 bytes",
		},
		{"relation that claims 65535 columns", false, []byte("R\x00\x00\x40\x01public\x00outbox_events\x00d\xff\xff"), "type 'R' of 29 bytes"},
		{"transactional message outside a transaction", true, logicalMessage(true, "x"), "transactional message outside a transaction"},
		{"bytes behind Begin", true, append(slices.Clone(begin), 0), "type 'B' of 22 bytes"},
		{"bytes behind Commit", false, append(slices.Clone(commit), 0), "type 'C' of 27 bytes"},
		{"bytes behind Relation", false, append(outboxRelation(), 0), "type 'R' of 125 bytes"},
		{"bytes behind Insert", false, append(outboxInsert("a"), 'n'), "type 'I' of 56 bytes"},
		{"bytes behind a logical message", false, append(logicalMessage(true, "x"), 0), "type 'M' of 23 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, c := New([]Table{outbox}), NewPool().Get()
			if !tt.outside {
				d, c = openTransaction(t)
			}
			err := d.Decode(tt.msg, c)
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("got error %v, want ErrMalformed", err)
			}
			if want := "malformed pgoutput message: " + tt.want; err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
			if len(c.Entries) > 0 || c.Bytes() > 0 {
				t.Errorf("got %+v in %d bytes, want nothing", entriesOf(c), c.Bytes())
			}
			if d.InTransaction() == tt.outside {
				t.Errorf("in a transaction: got %t, want %t", d.InTransaction(), !tt.outside)
			}
		})
	}
}

func TestDecodeTruncated(t *testing.T) {
	messages := slices.Concat(goldenMessages(t, "changes.txt"), [][]byte{logicalMessage(false, "content")})
	for _, msg := range messages {
		if strings.IndexByte("YOUDT", msg[0]) >= 0 {
			continue // skipped by their type
		}
		for n := range msg {
			d, c := New([]Table{outbox}), NewPool().Get()
			if msg[0] != 'B' {
				decodeAll(t, d, c, beginMessage(1, commitTimeOf(1)))
			}
			if err := d.Decode(msg[:n:n], c); !errors.Is(err, ErrMalformed) {
				t.Errorf("%d bytes of %q: got error %v, want ErrMalformed", n, msg, err)
			}
			if len(c.Entries) > 0 {
				t.Errorf("%d bytes of %q: got %+v, want nothing", n, msg, entriesOf(c))
			}
		}
	}
}

// A truncated message changes nothing: the whole one can follow.
func TestDecodeTruncatedLeavesStateAlone(t *testing.T) {
	d, c := New([]Table{outbox}), NewPool().Get()
	messages := [][]byte{
		beginMessage(0x500, commitTimeOf(0x500)), outboxRelation(), outboxInsert("a"),
		logicalMessage(true, "x"), outboxInsert("b"), commitMessage(0x500, 0x530),
	}
	for _, msg := range messages {
		for n := range msg {
			if err := d.Decode(msg[:n:n], c); !errors.Is(err, ErrMalformed) {
				t.Errorf("%d bytes of %q: got error %v, want ErrMalformed", n, msg, err)
			}
		}
		decodeAll(t, d, c, msg)
	}
	compareEntries(t, entriesOf(c), []entry{
		outboxEvent(positionOf(0x500, 0), "a"), outboxEvent(positionOf(0x500, 2), "b"),
		marker(0x530, commitTimeOf(0x500)),
	})
}

// openTransaction is where a row of the outbox may come next.
func openTransaction(t *testing.T) (*Decoder, *Chunk) {
	t.Helper()
	d, c := New([]Table{outbox}), NewPool().Get()
	decodeAll(t, d, c, beginMessage(0x500, commitTimeOf(0x500)), outboxRelation())
	return d, c
}

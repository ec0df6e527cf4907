package decoder

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pglogrepl"
)

// FuzzDecode runs a session that the input describes, with messages that are
// well-formed, damaged or any bytes, and checks what holds in every session.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"outbox.txt", "changes.txt"} {
		f.Add(rawScript(goldenMessages(f, name)))
	}
	f.Add([]byte{
		opRelation, 0, 0, 2, 1, 5, opBegin, 3, opInsert, 0, 6, 9, 'a', 1, 2, 'b', 'c', 0, 1, 1, 1, 0, opKeepalive, 3, opMessage, 1,
		opDamage, 7, opInsert | opHandOver, 0, 5, 1, 1, 1, 1, 1, opCommit, 4, opKeepalive, 9,
	})
	f.Fuzz(func(t *testing.T, input []byte) {
		s := fuzzSession{script: script(input), decoder: New([]Table{outbox}), pool: NewPool()}
		s.chunk = s.pool.Get()
		for len(s.script) > 0 {
			s.step(t)
		}
		s.handOver(t)
	})
}

// The operations of a script. opHandOver may come with each of them.
const (
	opBegin = iota
	opCommit
	opRelation
	opInsert
	opMessage
	opKeepalive
	opRaw
	opDamage
	opCount
	opHandOver = 0x80
)

// rawScript is the script of a session that consists of messages.
func rawScript(messages [][]byte) []byte {
	var b []byte
	for _, msg := range messages {
		if len(msg) <= 0xffff {
			b = binary.BigEndian.AppendUint16(append(b, opRaw), uint16(len(msg)))
			b = append(b, msg...)
		}
	}
	return b
}

// script is what is left of the input.
type script []byte

func (s *script) byte() byte {
	if b := s.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (s *script) bytes(n int) []byte {
	n = min(n, len(*s))
	b := slices.Clone((*s)[:n])
	*s = (*s)[n:]
	return b
}

type fuzzSession struct {
	script  script
	decoder *Decoder
	pool    *Pool
	chunk   *Chunk
	// entries is what the chunk is to hold, as it was when each was decoded.
	entries []entry
	// previous is the message before, for opDamage.
	previous []byte
	// lsn is where the session is; last is the newest event of it.
	lsn, commitLSN pglogrepl.LSN
	last           Position
}

func (s *fuzzSession) step(t *testing.T) {
	op := s.script.byte()
	var msg []byte
	switch op % opCount {
	case opBegin:
		s.lsn += 1 + pglogrepl.LSN(s.script.byte())
		msg = beginMessage(s.lsn, commitTimeOf(s.lsn))
	case opCommit:
		commitLSN := s.decoder.tx.commitLSN
		s.lsn = max(s.lsn, commitLSN+1+pglogrepl.LSN(s.script.byte()))
		msg = commitMessage(commitLSN, s.lsn)
	case opRelation:
		msg = s.relation()
	case opInsert:
		msg = s.insert()
	case opMessage:
		msg = logicalMessage(s.script.byte()&1 != 0, "content")
	case opKeepalive:
		s.keepalive(t, s.lsn+pglogrepl.LSN(s.script.byte()))
	case opRaw:
		msg = s.script.bytes(int(binary.BigEndian.Uint16([]byte{s.script.byte(), s.script.byte()})))
	case opDamage:
		msg = s.damage()
	}
	if op%opCount != opKeepalive {
		s.decode(t, msg)
	}
	if op&opHandOver != 0 || len(s.entries) == 16 {
		s.handOver(t)
	}
}

func (s *fuzzSession) relation() []byte {
	oid := uint32(s.script.byte() % 4)
	names := []string{"outbox_events", "other", "renamed"}
	columns := []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"}
	turn := int(s.script.byte()) % len(columns)
	columns = append(columns[turn:], columns[:turn]...)
	for range s.script.byte() % 4 {
		more := []string{"event_id", "metadata", "created_at", "", "id", "status"}
		columns = append(columns, more[int(s.script.byte())%len(more)])
	}
	lost := min(int(s.script.byte()%32), len(columns))
	columns = slices.Delete(columns, lost, min(lost+1, len(columns)))
	return relationMessage(oid, "public", names[int(s.script.byte())%len(names)], columns...)
}

func (s *fuzzSession) insert() []byte {
	oid := uint32(s.script.byte() % 4)
	values := make([]any, s.script.byte()%10)
	for i := range values {
		switch n := int(s.script.byte()); n {
		case 0: // NULL
		case 0xff:
			values[i] = s.script.bytes(5)
		default:
			values[i] = string(s.script.bytes(n))
		}
	}
	return insertMessage(oid, values...)
}

// damage returns the previous message with its end cut off or a byte changed.
func (s *fuzzSession) damage() []byte {
	msg := slices.Clone(s.previous)
	if len(msg) == 0 {
		return nil
	}
	at, with := int(s.script.byte())%len(msg), s.script.byte()
	if with == msg[at] {
		return msg[:at]
	}
	msg[at] = with
	return msg
}

func (s *fuzzSession) keepalive(t *testing.T, walEnd pglogrepl.LSN) {
	s.decoder.Keepalive(walEnd, s.chunk)
	s.check(t)
}

func (s *fuzzSession) decode(t *testing.T, msg []byte) {
	s.previous = slices.Clone(msg)
	inTransaction := s.decoder.InTransaction()
	err := s.decoder.Decode(msg, s.chunk)
	var mapping *MappingError
	if err != nil && !errors.Is(err, ErrMalformed) && !errors.As(err, &mapping) {
		t.Fatalf("%q: got error %v, want ErrMalformed or a *MappingError", msg, err)
	}
	if err != nil {
		if inTransaction != s.decoder.InTransaction() {
			t.Fatalf("%q: got error %v and a change of transaction", msg, err)
		}
		compareEntries(t, entriesOf(s.chunk), s.entries)
	}
	if !inTransaction && s.decoder.InTransaction() {
		if s.decoder.tx.commitLSN <= s.commitLSN {
			s.last = Position{} // not in the order of commits: no server does this
		}
		s.commitLSN = s.decoder.tx.commitLSN
	}
	s.check(t)
	for i := range msg {
		msg[i] = 0xaa
	}
}

// check looks at what the latest message has appended.
func (s *fuzzSession) check(t *testing.T) {
	t.Helper()
	entries := entriesOf(s.chunk)
	if n := len(entries) - len(s.entries); n < 0 || n > 1 {
		t.Fatalf("got %d entries more, want 0 or 1", n)
	}
	if len(entries) == 0 {
		return
	}
	newest := entries[len(entries)-1]
	changed := len(entries) > len(s.entries) || newest.Marker != s.entries[len(s.entries)-1].Marker
	s.entries = entries
	if !changed {
		return
	}
	row := s.chunk.Entries[len(entries)-1].Row
	if (newest.Marker != 0) == (row.Relation() != nil) {
		t.Fatalf("got %+v, want either a marker or an event", newest)
	}
	if (newest.Marker != 0) == s.decoder.InTransaction() {
		t.Fatalf("got %+v, in a transaction: %t", newest, s.decoder.InTransaction())
	}
	if newest.Marker != 0 {
		if len(entries) > 1 && entries[len(entries)-2].Marker != 0 {
			t.Fatalf("got a marker behind %+v, want one", entries[len(entries)-2])
		}
		return
	}
	if newest.Position.Compare(s.last) <= 0 {
		t.Fatalf("got position %s behind %s", newest.Position, s.last)
	}
	s.last = newest.Position
	checkRow(t, row, newest.Columns)
	checkSelection(t, row, newest.Columns)
}

// checkRow compares the fields of a row with its columns, found by name.
func checkRow(t *testing.T, row Row, columns []column) {
	t.Helper()
	if got, want := len(columns), len(row.Relation().Columns); got != want {
		t.Fatalf("got %d columns, want %d", got, want)
	}
	for f := range fieldCount {
		want := column{Null: true}
		for _, name := range slices.Backward(f.columns()) {
			if i := slices.IndexFunc(columns, func(c column) bool { return c.Name == name }); i >= 0 {
				want = columns[i]
			}
		}
		if got := row.Field(f); string(got) != want.Value || (got == nil) != want.Null {
			t.Fatalf("field %d: got %q, want %v", f, got, want)
		}
	}
}

// checkSelection compares what is read in one pass, in the order that is asked
// for, with the columns.
func checkSelection(t *testing.T, row Row, columns []column) {
	t.Helper()
	var odd []int
	for i := range columns {
		if i%2 == 1 {
			odd = append(odd, i)
		}
	}
	slices.Reverse(odd)
	values := make([][]byte, len(odd))
	row.Relation().Select(odd).Read(row, values)
	for slot, i := range odd {
		if got, want := values[slot], columns[i]; string(got) != want.Value || (got == nil) != want.Null {
			t.Fatalf("column %d: got %q, want %v", i, got, want)
		}
	}
}

// handOver passes the chunk on, as when the socket has nothing more.
func (s *fuzzSession) handOver(t *testing.T) {
	t.Helper()
	bytes := 0
	for _, e := range s.chunk.Entries {
		bytes += e.Row.Bytes()
	}
	if got := s.chunk.Bytes(); got != bytes {
		t.Fatalf("got a chunk of %d bytes, want %d", got, bytes)
	}
	compareEntries(t, entriesOf(s.chunk), s.entries)
	s.chunk.Release()
	s.chunk, s.entries = s.pool.Get(), nil
}

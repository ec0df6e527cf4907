// Package decoder turns the pgoutput stream of one replication session into
// outbox events and position markers.
//
// It understands protocol version 1, in which PostgreSQL sends a transaction
// only after it has committed, one whole transaction at a time, in commit
// order. So nothing is buffered here, and every INSERT that it sees is durable
// at the source.
//
// The bytes come from the network: every read is bounds-checked, and malformed
// input is an error, never a panic.
package decoder

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
)

// ErrMalformed reports bytes that are not a well-formed pgoutput message of
// protocol version 1, or a message where it cannot occur.
var ErrMalformed = errors.New("malformed pgoutput message")

// postgresEpoch is 2000-01-01 in microseconds since the Unix epoch; PostgreSQL
// counts its timestamps from there.
const postgresEpoch = 946684800000000

// Decoder holds what one replication session has said so far: the relation
// cache and the open transaction. It belongs to one goroutine.
type Decoder struct {
	tables []Table
	// relations is keyed by OID. The server repeats a relation in every session
	// before its first row and whenever it has changed, so the cache dies with
	// the session. Relations that are not ours are held as nil.
	relations map[uint32]*Relation
	tx        transaction
	messages  *messages // nil if they are not events
}

// transaction is the transaction between Begin and Commit.
type transaction struct {
	open       bool
	commitLSN  pglogrepl.LSN
	commitTime int64 // µs since the Unix epoch
	index      uint32
	events     bool // whether a row of ours was in it
}

// New returns a decoder for one session that yields the rows of tables.
func New(tables []Table) *Decoder {
	return &Decoder{tables: tables, relations: make(map[uint32]*Relation)}
}

// InTransaction reports whether a transaction has begun and not yet ended.
func (d *Decoder) InTransaction() bool { return d.tx.open }

// Decode consumes one pgoutput message and appends what it yields to c, which
// does not alias msg. The error is ErrMalformed or a *MappingError.
//
// Message formats: PostgreSQL manual, "Logical Replication Message Formats".
func (d *Decoder) Decode(msg []byte, c *Chunk) error {
	r := cursor{rest: msg}
	kind := r.uint8()
	var err error
	switch kind {
	case 'B':
		err = d.begin(&r)
	case 'C':
		err = d.commit(&r, c)
	case 'R':
		err = d.relation(&r)
	case 'I':
		err = d.insert(&r, c)
	case 'M':
		err = d.message(&r, c)
	case 'Y', 'O', 'U', 'D', 'T':
		// Types, origins, and what a publication made by others sends beside
		// inserts.
	default:
		return fmt.Errorf("%w: type 0x%02x", ErrMalformed, kind)
	}
	if r.malformed {
		return fmt.Errorf("%w: type %q of %d bytes", ErrMalformed, kind, len(msg))
	}
	return err
}

// Keepalive appends a marker at walEnd, the server's position in a keepalive
// message. A keepalive travels behind all data, so between transactions
// everything that committed before walEnd has been sent. Inside a transaction
// it is no position, and nothing is appended.
func (d *Decoder) Keepalive(walEnd pglogrepl.LSN, c *Chunk) {
	if !d.tx.open {
		c.mark(walEnd, time.Time{})
	}
}

func (d *Decoder) begin(r *cursor) error {
	commitLSN := pglogrepl.LSN(r.uint64())
	commitTime := int64(r.uint64()) + postgresEpoch
	r.uint32() // xid
	r.end()
	switch {
	case r.malformed:
		return nil
	case d.tx.open:
		return fmt.Errorf("%w: Begin inside a transaction", ErrMalformed)
	case commitLSN == 0:
		return fmt.Errorf("%w: Begin without a commit LSN", ErrMalformed)
	}
	d.tx = transaction{open: true, commitLSN: commitLSN, commitTime: commitTime}
	return nil
}

func (d *Decoder) commit(r *cursor, c *Chunk) error {
	r.uint8() // flags, unused
	commitLSN := pglogrepl.LSN(r.uint64())
	endLSN := pglogrepl.LSN(r.uint64())
	r.uint64() // commit time, as in Begin
	r.end()
	switch {
	case r.malformed:
		return nil
	case !d.tx.open:
		return fmt.Errorf("%w: Commit outside a transaction", ErrMalformed)
	case commitLSN != d.tx.commitLSN || endLSN <= commitLSN:
		return fmt.Errorf("%w: Commit at %s with end %s in the transaction of %s", ErrMalformed, commitLSN, endLSN, d.tx.commitLSN)
	}
	var eventTime time.Time
	if d.tx.events {
		eventTime = time.UnixMicro(d.tx.commitTime)
	}
	d.tx = transaction{}
	// The end, and nothing else: the commit LSN would send the transaction
	// again at each restart, one more byte would lose a neighbouring commit.
	c.mark(endLSN, eventTime)
	return nil
}

func (d *Decoder) insert(r *cursor, c *Chunk) error {
	oid := r.uint32()
	if r.uint8() != 'N' && !r.malformed {
		return fmt.Errorf("%w: Insert without a new tuple", ErrMalformed)
	}
	tuple := r.rest
	columns := r.tuple()
	r.end()
	if r.malformed {
		return nil
	}
	if !d.tx.open {
		return fmt.Errorf("%w: Insert outside a transaction", ErrMalformed)
	}
	rel, known := d.relations[oid]
	if !known {
		return fmt.Errorf("%w: Insert into unknown relation %d", ErrMalformed, oid)
	}
	position := d.next()
	if rel == nil {
		return nil
	}
	if columns != len(rel.Columns) {
		return fmt.Errorf("%w: Insert of %d columns into %s, which has %d", ErrMalformed, columns, rel.Table, len(rel.Columns))
	}
	d.tx.events = true
	c.event(Row{relation: rel, tuple: tuple}, position)
	return nil
}

// next returns the position of the next insert or message of the open
// transaction. Each takes an index, whether it is ours or not.
func (d *Decoder) next() Position {
	p := Position{CommitLSN: d.tx.commitLSN, Index: d.tx.index, CommitTime: d.tx.commitTime}
	d.tx.index++
	return p
}

// relation learns the shape of a table from a Relation message.
func (d *Decoder) relation(r *cursor) error {
	rel := Relation{OID: r.uint32()}
	rel.Schema = r.string()
	rel.Name = r.string()
	r.uint8() // replica identity
	n := int(r.uint16())
	for i := 0; i < n && !r.malformed; i++ {
		r.uint8() // flags: part of the key
		column := Column{Name: r.string(), Type: r.uint32()}
		r.uint32() // type modifier
		rel.Columns = append(rel.Columns, column)
	}
	r.end()
	if r.malformed {
		return nil
	}
	table, ours := d.table(rel.OID, rel.Schema, rel.Name)
	if !ours {
		d.relations[rel.OID] = nil
		return nil
	}
	rel.Table = table
	if err := rel.mapFields(); err != nil {
		return err
	}
	d.relations[rel.OID] = &rel
	return nil
}

// table finds the configured table that a relation stands for. The OID comes
// first: a table that was renamed is still ours, also if it was known by its
// name until then, and rows written before a table was dropped and made again
// carry the old OID under the same name.
func (d *Decoder) table(oid uint32, schema, name string) (Table, bool) {
	if known := d.relations[oid]; known != nil {
		return known.Table, true
	}
	for _, t := range d.tables {
		if t.OID == oid && oid != 0 {
			return t, true
		}
	}
	for _, t := range d.tables {
		if t.Schema == schema && t.Name == name {
			return t, true
		}
	}
	return Table{}, false
}

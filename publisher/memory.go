package publisher

import (
	"math/bits"
	"unsafe"
)

// keptBytes bounds the memory of each kind that is kept for the next batches.
// What is under way to brokers that keep up is hardly more.
const keptBytes = 4 << 20

// memory lends batches their blocks and records, so that a steady flow of events
// leaves nothing to the garbage collector. It belongs to the loop.
type memory struct {
	blocks store[byte]
	lists  store[record]
}

func (m *memory) block(size int) []byte { return m.blocks.take(size) }

func (m *memory) records(room int) []record { return m.lists.take(room) }

// giveRecords takes a list back. What its records refer to is free then.
func (m *memory) giveRecords(list []record) {
	clear(list)
	m.lists.give(list)
}

// give takes back what an acknowledged batch is made of, unless somebody else
// may still read it: the other half of a batch that was split, or a sender that
// has yet to find out that its request was given up.
func (m *memory) give(b *batch) {
	if b.shared || b.reading > 0 {
		return
	}
	m.giveRecords(b.records)
	for _, block := range append(b.filled, b.block) {
		if cap(block) <= maxBlockBytes { // else it was made for one large row
			m.blocks.give(block)
		}
	}
	b.records, b.filled, b.block = nil, nil, nil
}

// store keeps slices whose capacities are powers of two, each at the exponent.
type store[T any] struct {
	free [bits.UintSize][][]T
	kept int
}

// take returns an empty slice with room for n elements, n > 0.
func (s *store[T]) take(n int) []T {
	exponent := bits.Len(uint(n - 1))
	free := &s.free[exponent]
	last := len(*free) - 1
	if last < 0 {
		return make([]T, 0, 1<<exponent)
	}
	taken := (*free)[last]
	*free = (*free)[:last]
	s.kept -= s.bytes(cap(taken))
	return taken
}

// give takes a slice back. One that has lost its beginning is let go.
func (s *store[T]) give(slice []T) {
	room := cap(slice)
	if room == 0 || room&(room-1) != 0 || s.kept+s.bytes(room) > keptBytes {
		return
	}
	free := &s.free[bits.Len(uint(room-1))]
	*free = append(*free, slice[:0])
	s.kept += s.bytes(room)
}

func (s *store[T]) bytes(n int) int {
	var element T
	return n * int(unsafe.Sizeof(element))
}

package publisher

import "slices"

// arena is memory for the small texts that have to be made for records. It is
// taken in large pieces, and what was handed out stays where it is.
type arena struct {
	block []byte
	begun int // where the text begins that is being made
}

// minArenaBytes is the least that is taken at once.
const minArenaBytes = 4 << 10

// begin returns an empty slice, which is never nil, with room for n bytes, to be appended to and given
// back to end.
func (a *arena) begin(n int) []byte {
	if a.block == nil || cap(a.block)-len(a.block) < n {
		a.block = make([]byte, 0, max(n, minArenaBytes, min(2*cap(a.block), maxBlockBytes)))
	}
	a.begun = len(a.block)
	return a.block[a.begun:]
}

// end keeps what was appended to the slice that begin returned.
func (a *arena) end(text []byte) []byte {
	if cap(a.block)-a.begun >= len(text) {
		a.block = a.block[:a.begun+len(text)]
	}
	return slices.Clip(text)
}

// reset gives all of it back. What was handed out must not be used any more.
func (a *arena) reset() { a.block = a.block[:0] }

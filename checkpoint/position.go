package checkpoint

import (
	"sync/atomic"

	"github.com/jackc/pglogrepl"
)

// Position is the confirmed LSN as one side of a session tells it to the
// other. One goroutine advances it, any may load it. The zero value is 0/0:
// nothing has been confirmed.
type Position struct{ lsn atomic.Uint64 }

// Load returns the confirmed LSN.
func (p *Position) Load() pglogrepl.LSN { return pglogrepl.LSN(p.lsn.Load()) }

// Advance moves the position forward. An LSN at or behind it changes nothing.
func (p *Position) Advance(lsn pglogrepl.LSN) {
	if uint64(lsn) > p.lsn.Load() {
		p.lsn.Store(uint64(lsn))
	}
}

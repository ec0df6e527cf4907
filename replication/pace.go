package replication

import "time"

// The walsender sends every message with a system call of its own. A reader
// that is faster wakes up for each of them and takes the walsender's time
// slice. One that lets the socket buffer fill first, while there is a backlog,
// makes the walsender nearly twice as fast. The figures are from measurements
// on loopback with rows of 500 bytes.
const (
	// receiveBufferBytes is what the socket is asked for; below
	// usefulBufferBytes the window would close during a pause, which is worse
	// than none.
	receiveBufferBytes = 4 << 20
	usefulBufferBytes  = 1 << 20

	// pause is how long the buffer is allowed to fill.
	pause = time.Millisecond
	// lowWaterBytes is the same as an amount; lowWaterWait bounds it when the
	// backlog ends.
	lowWaterBytes = 128 << 10
	lowWaterWait  = 2 * time.Millisecond

	// A backlog begins with backlogBytes in a paceWindow (4 MB/s, some 8,000
	// rows of 300 bytes a second, each of which would wake everybody on its way)
	// and lasts until the flow is a trickle: a walsender that gets no time for a
	// moment must not be met by a reader that takes even more of it.
	paceWindow   = 4 * time.Millisecond
	backlogBytes = 16 << 10
	trickleBytes = 8 << 10
)

// pacing is the way in which the socket buffer is allowed to fill. The
// low-water mark costs a third of the CPU of a pause, during which every
// message still wakes the runtime's poller, so it is used where there is one.
type pacing int

const (
	pacingNone     pacing = iota // nothing to fill, or no means
	pacingPause                  // wait before the next read
	pacingLowWater               // let the kernel wake us later
)

// backlog tells from the flow of bytes whether the server has more to send
// than is coming in live.
type backlog struct {
	since time.Time
	bytes int
	on    bool
}

// note takes a read of n bytes at now into account.
func (b *backlog) note(n int, now time.Time) {
	if b.since.IsZero() {
		b.since = now
	}
	b.bytes += n
	elapsed := now.Sub(b.since)
	if elapsed < paceWindow {
		b.on = b.on || b.bytes >= backlogBytes
		return
	}
	enough := int64(backlogBytes)
	if b.on {
		enough = trickleBytes
	}
	b.on = int64(b.bytes)*int64(paceWindow) >= enough*int64(elapsed)
	b.since, b.bytes = now, 0
}

// end forgets the backlog: the server had nothing more to send.
func (b *backlog) end() { *b = backlog{} }

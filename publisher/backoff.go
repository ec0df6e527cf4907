package publisher

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles up to a limit.
type backoff struct {
	pause, limit time.Duration
}

// wait sleeps between half of the pause and all of it, so that several processes
// which failed together do not come back together, and returns early with the
// cause when ctx ends.
func (b *backoff) wait(ctx context.Context) error {
	pause := b.pause/2 + rand.N(b.pause/2+1)
	b.pause = min(2*b.pause, b.limit)
	return sleep(ctx, pause)
}

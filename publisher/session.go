package publisher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
)

const (
	// maxAcquiring is how many partitions are acquired at once.
	maxAcquiring = 32
	// maxLookups is how many topics are looked up at once.
	maxLookups = 16
	// unknownProducerExpiry stands for producer.id.expiration.ms where that
	// cannot be read.
	unknownProducerExpiry = 2 * time.Hour
)

// session is one Run. Its fields belong to the goroutine of Run, except where
// it says otherwise.
type session struct {
	*Publisher
	in Session

	// ctx ends with the session; helpers must not outlive it.
	ctx     context.Context
	cancel  context.CancelFunc
	helpers sync.WaitGroup
	// reports carries what helpers have to say, as code to be run here.
	reports chan func()
	// over is closed when Run returns.
	over chan struct{}

	router *router
	// encoders are for the senders; any goroutine.
	encoders sync.Pool
	tracker  *checkpoint.Tracker
	topics   map[string]*topic
	senders  map[senderKey]*sender
	order    []*sender // the same, in the order in which they were started
	// orphans are dead letters without a partition, oldest first; storing says
	// that the first is being stored.
	orphans []orphan
	storing bool

	// memory is what the next batches are made of.
	memory memory
	// held is the memory of the events that are held, records their number.
	held    int64
	records int
	// closed says that the entries have ended.
	closed bool
	// err is why the session must end.
	err error

	// lastEvent and lastMarker say how far the stream has come.
	lastEvent  decoder.Position
	lastMarker pglogrepl.LSN
	// proving are the partitions with events skipped on the word of their tail.
	proving map[*partition]struct{}
	// recognised counts the events that the partitions proved to hold since that
	// was last said.
	recognised int
	// earliest is the first position at which one of them has to be judged.
	earliest decoder.Position

	proof *proof
	// walEnd is at or before the end of the server's log; any goroutine.
	walEnd    atomic.Uint64
	acquiring slots
	// producerExpiry is how long brokers remember the sequence numbers of a
	// producer, as far as they tell.
	producerExpiry time.Duration
	lookups        chan struct{} // filled by the looks at topics and replicas under way; any goroutine
	said           map[string]time.Time
}

func newSession(ctx context.Context, p *Publisher, in Session) (*session, error) {
	r, err := newRouter(p.cfg, in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &session{
		Publisher: p, in: in, ctx: ctx, cancel: cancel,
		reports: make(chan func(), 256),
		over:    make(chan struct{}),
		router:  r,
		tracker: checkpoint.NewTracker(),
		topics:  make(map[string]*topic),
		senders: make(map[senderKey]*sender),
		proving: make(map[*partition]struct{}),
		proof:   newProof(in.Owner, in.Proved),
		lookups: make(chan struct{}, maxLookups),
		said:    make(map[string]time.Time),

		producerExpiry: unknownProducerExpiry,
	}
	s.encoders.New = func() any { return newEncoder(r.plans, codecs()[p.cfg.Compression]) }
	s.walEnd.Store(uint64(in.WALEnd))
	s.help(s.keepProof)
	s.help(s.readLimits)
	return s, nil
}

// readLimits asks the brokers for the settings that our rules depend on, until
// they are known: one that was away comes back, and a right may be given. To be
// refused for good costs a request now and then.
func (s *session) readLimits() {
	for pause := (backoff{time.Second, 5 * time.Minute}); ; {
		if limits := s.cluster.brokerLimits(s.ctx); limits.producerExpiry > 0 {
			s.report(func() { s.producerExpiry = limits.producerExpiry })
			return
		}
		if pause.wait(s.ctx) != nil {
			return
		}
	}
}

// end gives up whatever is under way and waits for the helpers.
func (s *session) end() {
	s.cancel()
	for _, sn := range s.senders {
		sn.abort()
	}
	s.helpers.Wait()
	s.troubles.clearAll()
	s.progress.standing(0, 0)
	s.metrics.nothing()
	s.running.Store(nil)
	close(s.over)
}

// help runs f beside the loop until it returns.
func (s *session) help(f func()) {
	s.helpers.Add(1)
	go func() {
		defer s.helpers.Done()
		f()
	}()
}

// report has f run by the loop. It may be called by any goroutine but the
// loop's, and does nothing once the session is over.
func (s *session) report(f func()) {
	select {
	case s.reports <- f:
	case <-s.ctx.Done():
	}
}

// after has f run by the loop when d has passed.
func (s *session) after(d time.Duration, f func()) {
	s.help(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.report(f)
		case <-s.ctx.Done():
		}
	})
}

// fail ends the session. The first reason counts.
func (s *session) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// loop is the life of the session.
func (s *session) loop() error {
	s.keepHouse()
	for {
		select {
		case chunk, ok := <-s.entries():
			s.receive(chunk, ok)
		case f := <-s.reports:
			f()
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
		s.catchUp()
		s.dispatch()
		s.in.Confirm(s.tracker.Confirmed())
		s.metrics.standing(s, s.tracker.Confirmed())
		s.progress.standing(s.tracker.Pending(), s.held)
		if s.err != nil {
			return s.err
		}
		if s.closed && s.records == 0 {
			return nil
		}
	}
}

// entries returns the stream, or nil while there is no room for more of it.
func (s *session) entries() <-chan *decoder.Chunk {
	if s.closed || s.held >= s.cfg.MaxInFlightBytes {
		return nil
	}
	return s.in.Entries
}

// catchUp takes in what is there already, so that batches fill while there is a
// backlog. It never waits.
func (s *session) catchUp() {
	const rounds = 16 // then it is time to send
	for range rounds {
		if s.err != nil {
			return
		}
		select {
		case chunk, ok := <-s.entries():
			s.receive(chunk, ok)
		case f := <-s.reports:
			f()
		default:
			return
		}
	}
}

// receive takes in a chunk, or the end of the entries.
func (s *session) receive(chunk *decoder.Chunk, ok bool) {
	if !ok {
		s.closed = true
		return
	}
	events := 0
	for i := range chunk.Entries {
		if s.err != nil {
			break
		}
		e := &chunk.Entries[i]
		if e.Marker != 0 {
			s.mark(checkpoint.Mark{LSN: e.Marker, CommitTime: e.CommitTime})
		} else {
			events++
			s.admit(e.Row, e.Position)
		}
	}
	s.metrics.received.Add(float64(events))
	chunk.Release()
}

func (s *session) mark(m checkpoint.Mark) {
	s.tracker.Mark(m)
	s.lastMarker = max(s.lastMarker, m.LSN)
	s.settle()
}

// sayOnce reports whether a line about key may be logged, which it may twice a
// minute. An outage must not flood the log.
func (s *session) sayOnce(key string) bool {
	const pause = 30 * time.Second
	if s.ctx.Err() != nil {
		return false // what fails now fails because we leave
	}
	if last, ok := s.said[key]; ok && time.Since(last) < pause {
		return false
	}
	s.said[key] = time.Now()
	return true
}

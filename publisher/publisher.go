// Package publisher delivers outbox events to Kafka, in order, once, and tells
// how far they have been acknowledged.
//
// Within a partition nothing overtakes: one batch is under way, the same
// records in the same order, until the brokers have it. A partition that cannot
// go on stands still, the others go on. Before a partition is written to, it is
// acquired: whoever wrote before is shut out by the brokers, and what is already
// there is recognised and not sent again.
//
// The one thing to know: only the goroutine of Run touches queues, partitions
// and the tracker, and it never blocks. Everything that waits is a helper that
// reports to it.
package publisher

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/checkpoint"
	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// ErrStartOver says that the session has to be started again from the slot's
// position, at once, since what it was built on has proved untrue.
var ErrStartOver = errors.New("the session has to start over")

// ErrFence says that the rights on the brokers do not allow what FenceRequire
// demands.
var ErrFence = errors.New("other writers cannot be shut out")

// Owner proves that this process holds the replication slot.
type Owner interface {
	// Prove asks the server, and returns when the question was sent. It fails if
	// the slot is held by somebody else.
	Prove(ctx context.Context) (time.Time, error)
	// WALEnd returns the end of the server's write-ahead log.
	WALEnd(ctx context.Context) (pglogrepl.LSN, error)
	// Limit returns how long a proof counts from the moment of its question.
	Limit() time.Duration
}

// Session is one replication session: what is to be published, and for whom.
type Session struct {
	// SystemID, Slot and Stream (publications and options) say where the
	// positions of the events come from.
	SystemID, Slot, Stream string
	// Tables are the tables of the stream with their OIDs.
	Tables []decoder.Table
	Owner  Owner
	// Proved is when the question was sent that was answered with yes, before
	// this session began, and WALEnd where the server's log ended about then. The
	// zero values are right too, and cost questions.
	Proved time.Time
	WALEnd pglogrepl.LSN
	// Entries are the stream. Closing it asks Run to return as soon as nothing
	// is held any more.
	Entries <-chan *decoder.Chunk
	// Confirm is told each mark up to which everything is acknowledged. It must
	// not block.
	Confirm func(checkpoint.Mark)
	// DeadLetter keeps poison events under PolicyDeadLetter.
	DeadLetter StoreDeadLetter
}

// Publisher publishes the events of one session after the other. It holds what
// outlives a session: the connections for synchronous calls, and what it has
// learnt of the partitions.
type Publisher struct {
	cfg     Config
	log     *slog.Logger
	metrics *Metrics
	cluster *cluster

	// refuted are tails that the stream did not bear out. They are not
	// believed again.
	refuted map[tailKey]bool
	// acked is the last record that each partition acknowledged. A partition
	// that does not have it any more has lost data.
	acked map[partitionKey]acknowledged

	troubles *troubles
	progress progress
	// running is the session of the Run that is under way, nil without one.
	running atomic.Pointer[session]
}

// partitionKey names a partition of one incarnation of a topic.
type partitionKey struct {
	topic     sarama.Uuid
	name      string // for brokers that have no topic ids
	partition int32
}

type tailKey struct {
	partitionKey
	offset int64
}

// New returns a publisher. Nothing is connected yet.
func New(cfg Config, metrics *Metrics, log *slog.Logger) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c, err := newCluster(clusterConfig{
		Bootstrap: cfg.Brokers, Security: cfg.Security, KafkaVersion: cfg.KafkaVersion,
		// Whether asking makes a topic is the brokers' auto.create.topics.enable.
		AutoCreate: !cfg.CreateTopics.Enabled, Create: cfg.CreateTopics,
		Fence: cfg.Fence, StartTimeout: cfg.StartTimeout, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &Publisher{
		cfg: cfg, log: log, metrics: metrics, cluster: c,
		refuted: make(map[tailKey]bool),
		acked:   make(map[partitionKey]acknowledged),

		troubles: newTroubles(),
	}, nil
}

// Close closes the connections. No Run may be under way.
func (p *Publisher) Close() { p.cluster.close() }

// Run publishes the entries of one session. It returns nil once the entries
// have ended and everything is acknowledged, and otherwise why it had to stop:
// the cause of ctx, ErrStartOver, ErrHalted, or what the owner or the brokers
// said. Whatever it had not confirmed is given up; the next session finds out
// what of it has reached the brokers.
func (p *Publisher) Run(ctx context.Context, in Session) error {
	s, err := newSession(ctx, p, in)
	if err != nil {
		return err
	}
	p.running.Store(s)
	defer s.end()
	return s.loop()
}

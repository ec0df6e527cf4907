//go:build linux || darwin

package integration

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// neighbourFaults are others who write to the same topics.
func neighbourFaults() []*fault {
	return []*fault{
		{
			name: "another producer", weight: 3, on: []thing{theNeighbours}, standing: true, does: "records of somebody else, alone and in transactions that are committed or aborted",
			undone: "it stops", inject: (*torture).produceForeign,
		},
		{
			name: "another slot", weight: 3, on: []thing{theNeighbours}, does: "a second relay with its own slot writes to the same topics", undone: "it is stopped when it has published all",
			inject: (*torture).publishNeighbour,
		},
	}
}

// produceForeign writes records of somebody else until it is undone. Errors are
// his own: topics and brokers may be away.
func (x *torture) produceForeign(random *rand.Rand) func() {
	ctx, cancel := context.WithCancel(x.o.t.Context())
	random = rand.New(rand.NewPCG(random.Uint64(), 0)) // the round's is used by its other faults
	var all sync.WaitGroup
	all.Go(func() {
		pace := time.NewTicker(50 * time.Millisecond)
		defer pace.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			limited, stop := context.WithTimeout(ctx, 5*time.Second)
			var records []*kgo.Record
			for range 5 {
				kind := tortureTypes[random.IntN(len(tortureTypes))]
				records = append(records, foreignRecord(x.o.topic(kind.name), int32(random.IntN(kind.partitions)), 1+random.IntN(10_000)))
			}
			if n%3 == 0 {
				_ = x.o.kafka.Produce(limited, records...)
			} else {
				_ = x.o.kafka.ProduceTransaction(limited, "somebody-else", n%3 == 1, records...)
			}
			stop()
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
	})
	stop := sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	x.o.t.Cleanup(stop)
	return stop
}

// publishNeighbour starts the neighbour's relay and commits rows in its table.
func (x *torture) publishNeighbour(random *rand.Rand) func() {
	n := x.neighbour
	x.neighbourRelay = x.start(n)
	for range 2 + random.IntN(5) {
		rows, numbers := n.tortureRows(50)
		conn, err := n.pg.Connect(n.t.Context(), n.database)
		x.must(err)
		x.must(insertRows(n.t.Context(), conn, n.table, rows...))
		x.must(conn.Close(n.t.Context()))
		n.ledger.note(committed, numbers...)
	}
	end := n.walEnd()
	x.later(func() error {
		x.confirms(n, end)
		n.ledger.read()
		return x.neighbourRelay.Close()
	})
	x.later(n.savePosition)
	return nil
}

// savePosition has the server save where the slot stands, which it does of
// itself only now and then. It would otherwise go back in a restart, to events
// of a time when the topics held much less, or were other ones.
func (o *outbox) savePosition() error {
	if err := o.pg.Exec(o.t.Context(), o.database, "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", o.slot); err != nil {
		return err // the relay's walsender may not have left yet
	}
	return o.pg.Exec(o.t.Context(), o.database, "CHECKPOINT")
}

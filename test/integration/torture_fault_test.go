//go:build linux || darwin

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// fault is one kind of what happens to a relay in production.
type fault struct {
	name   string
	weight int // how often it comes, compared with the others
	// on is what it works on: those that overlap work on different things.
	on []thing
	// does and undone say what is done, and how it is taken back; undone is
	// empty if nothing has to be.
	does, undone string
	// standing: the relay has to go on while the fault lasts. The recovery
	// time of others begins when they are undone.
	standing bool
	// forgets: the server may have forgotten what was confirmed last.
	forgets bool
	// doubles is the circumstance of docs/guarantees.md that allows duplicates
	// of what is on its way, setAside the one that allows dead letters.
	doubles  string
	exact    bool                    // doubles holds only if another fault has ended the session
	topics   func(*torture) []string // that doubles concerns; nil is all
	scatters bool                    // aggregates are not kept together meanwhile
	setAside func(id string) bool
	// inject does it and returns what undoes it, or nil.
	inject func(x *torture, random *rand.Rand) (heal func())
}

// thing is what a fault works on.
type thing string

const (
	theRelay           thing = "relay"
	theBrokers         thing = "brokers"
	theTopics          thing = "topics"
	theBrokerNetwork   thing = "network of the brokers"
	thePostgres        thing = "PostgreSQL"
	thePostgresNetwork thing = "network of PostgreSQL"
	theNeighbours      thing = "neighbours"
)

// tortures are all faults.
func tortures() []*fault {
	return slices.Concat(relayFaults(), brokerFaults(), replicaFaults(), diskFaults(), topicFaults(), networkFaults(), postgresFaults(), neighbourFaults())
}

// injection is a fault that was injected.
type injection struct {
	*fault
	number                      int
	alone                       bool
	injected, healed, recovered time.Time
	// recovery is how long the relay needed until all that was committed so
	// far was confirmed; known if the fault was alone.
	recovery time.Duration
	// from is what the slot was confirmed up to before, or, if the server can
	// forget that, what it cannot forget; to is the end of the write-ahead log
	// when all was in order again. neighbourFrom is from of the neighbour's slot.
	from, neighbourFrom, to pglogrepl.LSN
}

func (i *injection) String() string {
	clock := func(t time.Time) string { return t.UTC().Format("15:04:05.000") }
	text := fmt.Sprintf("%4d  %s  healed %s  recovered %s  %s..%s  %s", i.number, clock(i.injected), clock(i.healed), clock(i.recovered), i.from, i.to, i.name)
	if i.alone {
		text += fmt.Sprintf(" (alone, recovered in %.1f s)", i.recovery.Seconds())
	}
	return text
}

// begin is the position in front of the events of an outbox that were on their
// way when it was injected.
func (i *injection) begin(x *torture, o *outbox) pglogrepl.LSN {
	if o == x.neighbour {
		return i.neighbourFrom
	}
	return i.from
}

// window is what the fault allows to the events of an outbox.
func (i *injection) window(x *torture, o *outbox) window {
	w := window{why: i.name, from: i.begin(x, o), to: i.to, doubles: i.doubles != "" && !(i.exact && i.alone), scatters: i.scatters, setAside: i.setAside}
	if i.topics != nil {
		w.topics = i.topics(x)
	}
	return w
}

// recoveryLimit is how long the relay may need to be in order again when
// nothing is wrong any more, on a machine that is busy with much else.
const recoveryLimit = 3 * time.Minute

// endure does one round: its faults are injected one after the other, last for
// a while, and are undone in any order; then all must come right.
func (x *torture) endure(r round) {
	x.o.t.Helper()
	injected := x.inject(r)
	if len(injected) == 1 && injected[0].standing {
		x.recovers(injected[0].injection, injected[0].injected)
	}
	elapsed(x.o.t, r.hold)
	for _, i := range r.random.Perm(len(injected)) {
		if injected[i].heal != nil {
			injected[i].heal()
		}
		injected[i].healed = time.Now()
	}
	if len(injected) == 1 && !injected[0].standing {
		x.recovers(injected[0].injection, injected[0].healed)
	}
	x.settle()
	end := x.o.walEnd()
	for _, i := range injected {
		i.to, i.recovered = end, time.Now()
		x.o.t.Log(i)
	}
	x.o.ledger.read()
}

// injecting is an injection that may have to be undone.
type injecting struct {
	*injection
	heal func()
}

// inject injects the faults of a round.
func (x *torture) inject(r round) []injecting {
	x.o.t.Helper()
	forgets := slices.ContainsFunc(r.faults, func(f *fault) bool { return f.forgets })
	var injected []injecting
	for n, f := range r.faults {
		if n > 0 {
			elapsed(x.o.t, r.pause)
		}
		i := &injection{
			fault: f, number: len(x.timeline) + 1, alone: len(r.faults) == 1,
			from: x.o.unconfirmed(forgets), neighbourFrom: x.neighbour.unconfirmed(forgets),
		}
		x.timeline = append(x.timeline, i)
		x.o.t.Logf("%4d  %s", i.number, f.name)
		heal := f.inject(x, r.random)
		i.injected = time.Now()
		injected = append(injected, injecting{i, heal})
	}
	return injected
}

// unconfirmed returns a position in front of all that may come again: what the
// slot is confirmed up to, or, if the server may forget that, its restart
// position, which is saved whenever it moves.
func (o *outbox) unconfirmed(forgets bool) pglogrepl.LSN {
	o.t.Helper()
	if !forgets {
		return o.confirmed()
	}
	return o.lsn("SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = $1", o.slot)
}

// recovers waits until all that is committed now is confirmed, and notes how
// long that took since a time.
func (x *torture) recovers(i *injection, since time.Time) {
	x.o.t.Helper()
	x.confirms(x.o, x.o.walEnd())
	i.recovery = time.Since(since)
}

// confirms waits until an outbox is confirmed up to lsn, by its sampler's
// account.
func (x *torture) confirms(o *outbox, lsn pglogrepl.LSN) {
	x.o.t.Helper()
	harness.Eventually(x.o.t, recoveryLimit, func() error {
		if confirmed := o.sampler.confirmed(); confirmed < lsn {
			return fmt.Errorf("the slot %s is confirmed up to %s, not yet %s", o.slot, confirmed, lsn)
		}
		return nil
	})
}

// settle waits until all is in order again, and leaves one relay.
func (x *torture) settle() {
	x.o.t.Helper()
	for _, ready := range x.conditions {
		harness.Eventually(x.o.t, recoveryLimit, ready)
	}
	x.conditions = nil
	for len(x.relays) > 1 {
		x.kill(x.relays[0])
	}
	x.relays[0].mustRun()
	x.confirms(x.o, x.o.walEnd())
}

// later has settle wait for a condition too.
func (x *torture) later(ready func() error) { x.conditions = append(x.conditions, ready) }

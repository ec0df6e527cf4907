//go:build linux || darwin

package integration

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// The environment variables of TestTorture, for "make torture".
const (
	// envTorture is how long faults are injected, such as 10m. Without it each
	// comes once.
	envTorture = "OUTBOX_CDC_TEST_TORTURE"
	// envSeed is the seed of the faults and the writers; 1 if it is not set.
	envSeed = "OUTBOX_CDC_TEST_SEED"
	// envFaults is a regular expression that the names of the faults match; all
	// faults if it is not set.
	envFaults = "OUTBOX_CDC_TEST_FAULTS"
	// envSummary is a file to which the summary is written, in JSON.
	envSummary = "OUTBOX_CDC_TEST_SUMMARY"
)

// commonTopic is where all events go when the topic template is another.
const commonTopic = "common"

// neighbourNumbers are the numbers of the neighbour's rows.
const neighbourNumbers = int64(1) << 40

// TestTorture has writers commit, roll back, prepare and interleave
// transactions of all kinds while relays, brokers, topics, networks and the
// database server suffer what happens in production, one after the other and
// several at a time. In the end each event is there once and in order, but for
// what docs/guarantees.md allows to the events that were on their way at the
// time.
//
// Behaviours: O1, S3, K4, K5
func TestTorture(t *testing.T) {
	seed, length := tortureSeed(t), tortureLength(t)
	t.Logf("seed %d", seed)
	x := newTorture(t)
	stop := x.o.torment(seed, 4, 80*time.Millisecond)
	x.launch()
	x.settle()
	faults := newSchedule(seed, length == 0, tortureFaults(t))
	for end := time.Now().Add(length); time.Now().Before(end) || length == 0 && len(faults.first) > 0; {
		x.endure(faults.next())
	}
	stop()
	x.settlePrepared()
	x.settle()
	x.conclude(seed)
}

// tortureSeed, tortureFaults and tortureLength read the environment.
func tortureSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(envSeed)
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", envSeed, err)
	}
	return seed
}

func tortureFaults(t *testing.T) []*fault {
	t.Helper()
	wanted, err := regexp.Compile(os.Getenv(envFaults))
	if err != nil {
		t.Fatalf("%s: %v", envFaults, err)
	}
	faults := slices.DeleteFunc(tortures(), func(f *fault) bool { return !wanted.MatchString(f.name) })
	if len(faults) == 0 {
		t.Fatalf("%s: no fault matches %s", envFaults, wanted)
	}
	return faults
}

func tortureLength(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv(envTorture)
	if text == "" {
		return long(0, 5*time.Minute)
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", envTorture, err)
	}
	return length
}

// torture is what is tortured, and what has been done to it.
type torture struct {
	o *outbox
	// neighbour is another outbox with a slot of its own, whose events go to
	// the same topics. Its relay is the last that a fault has started.
	neighbour      *outbox
	neighbourRelay *relay

	begun    time.Time
	relays   []*relay // those that should run; one between two rounds
	ended    []*relay // those that have ended last
	flags    []string // of relays that are launched
	grown    int      // partitions of the topic that grows
	timeline []*injection
	// conditions are what the next settle has to wait for.
	conditions []func() error
}

func newTorture(t *testing.T) *torture {
	t.Helper()
	config := outboxConfig{
		kafka: threeBrokers(t), partitionsOf: make(map[string]int), proxied: true, pace: 100 * time.Millisecond,
		postgres: harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"max_prepared_transactions": "20"}}),
		settings: shortTimeout, sum: tortureSum, foreign: func(n int64) bool { return n >= neighbourNumbers },
	}
	for _, kind := range tortureTypes {
		config.types = append(config.types, kind.name)
		config.partitionsOf[kind.name] = kind.partitions
	}
	x := &torture{begun: time.Now()}
	t.Cleanup(x.close)
	// When min.insync.replicas is altered, a controller of Kafka 4.3 forgets the
	// eligible replicas of partitions in one place and not in another; once the
	// topic is deleted, no broker that was killed can register any more.
	if err := config.kafka.DropFeature(t.Context(), "eligible.leader.replicas.version"); err != nil {
		t.Fatal(err)
	}
	x.o = newOutbox(t, config)
	x.grown = x.o.partitions(x.o.topic("grown"))
	x.o.createTopic(commonTopic)
	config.neighbour, config.proxied, config.pace = x.o, false, time.Second
	config.foreign = func(n int64) bool { return n < neighbourNumbers }
	x.neighbour = newOutbox(t, config)
	x.neighbour.ledger.last = neighbourNumbers
	return x
}

// close shows what the relays have said, if the test has failed, and ends them.
func (x *torture) close() {
	all := slices.Concat(x.ended, x.relays)
	if x.neighbourRelay != nil {
		all = append(all, x.neighbourRelay)
	}
	for _, r := range all {
		if x.o.t.Failed() {
			lines := strings.Split(strings.TrimSpace(r.Stderr()), "\n")
			x.o.t.Logf("the end of standard error of the relay with pid %d:\n%s", r.PID(), strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
		if err := r.Close(); err != nil {
			x.o.t.Error(err)
		}
	}
}

// launch starts a relay, which does not mind being frozen as it starts.
func (x *torture) launch() { x.relays = append(x.relays, x.start(x.o, x.flags...)) }

// start starts a relay on an outbox.
func (x *torture) start(o *outbox, flags ...string) *relay {
	o.t.Helper()
	args, env := o.invocation(append(slices.Clone(flags), "--start-timeout", "10m"))
	r, err := harness.StartRelay(context.WithoutCancel(o.t.Context()), env, args...)
	if err != nil {
		o.t.Fatal(err)
	}
	return &relay{Relay: r, o: o}
}

// settlePrepared commits the transactions that writers have left prepared.
func (x *torture) settlePrepared() {
	x.o.t.Helper()
	for _, gid := range values[string](x.o, "SELECT gid FROM pg_prepared_xacts WHERE database = $1", x.o.database) {
		x.o.exec("COMMIT PREPARED '" + gid + "'")
	}
}

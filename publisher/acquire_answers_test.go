//go:build linux || darwin

package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakePartition is partition 0 of "orders" with the event 1 in it.
func fakePartition(t *testing.T, change ...func(*clusterConfig)) (*kfake.Cluster, *testPartition) {
	t.Helper()
	fake := fakeCluster(t)
	p := openPartition(t, openCluster(t, fake.ListenAddrs(), change...), "orders")
	p.mustSend(eventBatch(p.acquire().identity, 0, 1, 1, time.Now()))
	p.refusals = nil
	return fake, p
}

// TestAcquireAnswers injects each answer that a broker may give at a step, twice,
// and expects the acquisition to come through.
func TestAcquireAnswers(t *testing.T) {
	coordinator := []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.UnknownServerError}
	fenced := []*kerr.Error{kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping, kerr.ProducerFenced}
	leader := []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.FencedLeaderEpoch, kerr.KafkaStorageError, kerr.UnknownTopicID, kerr.UnknownServerError}
	steps := []struct {
		key     kmsg.Key
		answers []*kerr.Error
	}{
		{kmsg.FindCoordinator, []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress}},
		{kmsg.InitProducerID, append(slices.Clone(coordinator), kerr.ProducerFenced, kerr.InvalidProducerEpoch)},
		{kmsg.ListOffsets, append(slices.Clone(leader), kerr.OffsetNotAvailable)},
		{kmsg.AddPartitionsToTxn, append(append(slices.Clone(coordinator), fenced...), kerr.UnknownTopicOrPartition)},
		{kmsg.EndTxn, append(slices.Clone(coordinator), fenced...)},
		{kmsg.Fetch, append(slices.Clone(leader), kerr.OffsetOutOfRange)},
	}
	for _, step := range steps {
		for _, answer := range step.answers {
			t.Run(step.key.Name()+" "+answer.Message, func(t *testing.T) {
				fake, p := fakePartition(t)
				asked := 0
				p.ours = func(context.Context) error { asked++; return nil }
				fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{step.key}, Err: answer, Count: 2})
				got := p.acquire()
				p.wantTail(got, 1, 1)
				if got.mode != acquiredExact || fault.Hits() != 2 {
					t.Errorf("acquired %s after %d faults, want exact after 2", got.mode, fault.Hits())
				}
				rounds := 0 // after the first
				switch {
				case slices.Contains(fenced, answer):
					rounds = 2
				case answer == kerr.OffsetOutOfRange: // the second time it is believed
					rounds = 1
				}
				if asked != rounds {
					t.Errorf("asked %d times who owns the slot, want %d", asked, rounds)
				}
				p.mustSend(eventBatch(got.identity, 0, 2, 2, time.Now()))
			})
		}
	}
}

// TestAcquireCannotBeExact injects answers that do not go away and stand in the
// way of an exact acquisition.
//
// Behaviours: K13
func TestAcquireCannotBeExact(t *testing.T) {
	tests := []struct {
		name   string
		key    kmsg.Key
		answer *kerr.Error
		// says is in the reason.
		says string
	}{
		{"no right to find the coordinator", kmsg.FindCoordinator, kerr.TransactionalIDAuthorizationFailed, "grant WRITE and DESCRIBE on transactional ids"},
		{"no right on the transactional id", kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed, "grant WRITE and DESCRIBE on transactional ids"},
		{"right on the transactional id taken away", kmsg.AddPartitionsToTxn, kerr.TransactionalIDAuthorizationFailed, "grant WRITE and DESCRIBE on transactional ids"},
		{"no transactions", kmsg.InitProducerID, kerr.InvalidTxnState, "no transactions"},
		{"request unknown to the broker", kmsg.InitProducerID, kerr.UnsupportedVersion, "no transactions"},
		{"transaction timeout too long", kmsg.InitProducerID, kerr.InvalidTransactionTimeout, "transaction.max.timeout.ms"},
		{"no coordinator to be found", kmsg.FindCoordinator, kerr.CoordinatorNotAvailable, "no transaction coordinator for"},
		{"coordinator that never gets ready", kmsg.InitProducerID, kerr.CoordinatorLoadInProgress, "no transaction coordinator for"},
		{"no right to read", kmsg.Fetch, kerr.TopicAuthorizationFailed, "READ"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fake, p := fakePartition(t, func(conf *clusterConfig) {
				conf.Fence, conf.StartTimeout = FenceRequire, 200*time.Millisecond
			})
			fake.Fault(kfake.Fault{Keys: []kmsg.Key{test.key}, Err: test.answer, Count: -1})
			p.wantRequired(test.says)
		})
	}
}

// TestAcquireWaitsForCoordinator checks that a missing coordinator is waited for
// as long as the leader is missing too, and as long as it has work to do.
func TestAcquireWaitsForCoordinator(t *testing.T) {
	tests := []struct {
		name   string
		faults []kfake.Fault
	}{
		{"while the leader does not answer either", []kfake.Fault{
			{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: -1},
			{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.NotLeaderForPartition, Count: -1},
		}},
		{"while it ends another transaction", []kfake.Fault{
			{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.ConcurrentTransactions, Count: -1},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fake, p := fakePartition(t, func(conf *clusterConfig) { conf.StartTimeout = 100 * time.Millisecond })
			fake.Fault(test.faults...)
			if _, err := p.tryAcquire(2 * time.Second); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want to be still trying", err)
			}
			if len(p.refusals) < 3 {
				t.Errorf("reported %d failed attempts, want several", len(p.refusals))
			}
		})
	}
}

// TestTailScanFollowsTheLeader moves the leader between the marker and the look
// back.
func TestTailScanFollowsTheLeader(t *testing.T) {
	fake, p := fakePartition(t)
	p.mustSend(foreignBatch(500, 10)) // more than one window
	fetches := 0
	fault := fake.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 3,
		When: func(kmsg.Request) bool { fetches++; return fetches > 1 },
	})
	got := p.acquire()
	p.wantTail(got, 1, 1)
	if fault.Hits() != 3 {
		t.Errorf("acquired after %d faults, want 3", fault.Hits())
	}
}

// TestAcquireDoesNotHammer checks that a broker which refuses every offset is not
// asked in a tight loop.
func TestAcquireDoesNotHammer(t *testing.T) {
	fake, p := fakePartition(t)
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: -1})
	if _, err := p.tryAcquire(2 * time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want to be still trying", err)
	}
	if hits := fault.Hits(); hits < 2 || hits > 30 {
		t.Errorf("asked %d times in 2 s", hits)
	}
}

// TestAcquireReturnsOperatorErrors checks that what only a person can cure is not
// tried without a word for ever.
func TestAcquireReturnsOperatorErrors(t *testing.T) {
	tests := []struct {
		key    kmsg.Key
		answer *kerr.Error
	}{
		{kmsg.ListOffsets, kerr.TopicAuthorizationFailed},
		{kmsg.AddPartitionsToTxn, kerr.TopicAuthorizationFailed},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.key.Name(), " ", test.answer.Message), func(t *testing.T) {
			fake, p := fakePartition(t)
			fake.Fault(kfake.Fault{Keys: []kmsg.Key{test.key}, Err: test.answer, Count: -1})
			_, err := p.tryAcquire(10 * time.Second)
			wantOperator(t, err, sarama.KError(test.answer.Code))
		})
	}
}

func TestLostDataErrorNamesBothOffsets(t *testing.T) {
	err := &lostDataError{topic: "orders", partition: 3, acknowledged: acknowledged{41, position(1)}, endOffset: 17}
	for _, want := range []string{"orders/3", "41", "17", position(1).String()} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

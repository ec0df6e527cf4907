//go:build linux || darwin

package publisher

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestAcquireTellsLostData(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	compacted := harness.TopicConfig{Settings: map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100"}}

	// Each partition holds a control batch at offset 0, events 1 to 3 at 1 to
	// 3, another control batch at 4.
	type lostDataCase struct {
		name   string
		config harness.TopicConfig
		known  acknowledged
		before func(p *testPartition)
		lost   bool
	}
	tests := []lostDataCase{
		{name: "the last acknowledged record is the tail", known: acknowledged{3, position(3)}},
		{name: "the last acknowledged record is further back", known: acknowledged{2, position(2)}},
		{name: "the partition is shorter", known: acknowledged{9, position(9)}, lost: true},
		{name: "the partition ends right before it", known: acknowledged{5, position(4)}, lost: true},
		{name: "another event stands there", known: acknowledged{2, position(7)}, lost: true},
		{name: "the same event with another commit time stands there", known: acknowledged{3, earlier(position(3))}, lost: true},
		{name: "a control batch stands there", known: acknowledged{4, position(4)}, lost: true},
		{name: "retention took it", known: acknowledged{2, position(7)}, before: func(p *testPartition) {
			deleteBefore(p, kafka, 3)
		}},
	}
	if harness.Long() {
		tests = append(tests, lostDataCase{name: "compaction took it", config: compacted, known: acknowledged{1, position(1)}, before: func(p *testPartition) {
			p.compactAway(kafka, 1)
		}})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newPartition(t, kafka, c, test.config)
			acquired := p.acquire()
			p.mustSend(eventBatch(acquired.identity, 0, 1, 3, time.Now()))
			p.acquire()
			if test.before != nil {
				test.before(p)
			}
			p.known = &test.known
			_, err := p.tryAcquire(20 * time.Second)
			var lost *lostDataError
			if test.lost && !errors.As(err, &lost) || !test.lost && err != nil {
				t.Errorf("got error %v, want lost data %t", err, test.lost)
			}
			if lost != nil && lost.acknowledged != test.known {
				t.Errorf("error names %+v, want %+v", lost.acknowledged, test.known)
			}
		})
	}
}

// earlier is the same place in another history of the server.
func earlier(p decoder.Position) decoder.Position {
	p.CommitTime--
	return p
}

// compactAway writes the key of event n again until the record at offset n is
// gone.
func (p *testPartition) compactAway(kafka *harness.Kafka, n int64) {
	p.t.Helper()
	harness.Eventually(p.t, 40*time.Second, func() error {
		record := &sarama.Record{Key: fmt.Append(nil, "key", n), Value: []byte("newer")}
		p.mustSend(newBatch(anonymous, -1, time.Now(), record))
		records, err := kafka.ReadAll(p.t.Context(), p.topic)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Offset == n {
				return fmt.Errorf("offset %d is still there", n)
			}
		}
		return nil
	})
}

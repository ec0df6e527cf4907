package publisher

import (
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

func TestNewTopicMetadata(t *testing.T) {
	answer := &sarama.TopicMetadata{Name: "orders", Uuid: sarama.Uuid{1}, Partitions: []*sarama.PartitionMetadata{
		{ID: 2, Leader: 7, LeaderEpoch: 3},
		{ID: 0, Leader: 5, LeaderEpoch: 1, Err: sarama.ErrReplicaNotAvailable},
		{ID: 1, Leader: -1, LeaderEpoch: 2, Err: sarama.ErrLeaderNotAvailable},
	}}
	got := newTopicMetadata(answer, time.Now())
	if got.partitions != 3 || !slices.Equal(got.leaders, []int32{5, noLeader, 7}) || !slices.Equal(got.epochs, []int32{1, 2, 3}) {
		t.Errorf("got %+v", got)
	}
	if got.leader(3) != noLeader {
		t.Errorf("a partition that is not there has leader %d", got.leader(3))
	}
}

func TestMergeTopicMetadata(t *testing.T) {
	id, other := sarama.Uuid{1}, sarama.Uuid{2}
	tests := []struct {
		name          string
		one, two      topicMetadata
		wantLeaders   []int32
		wantPartition int32
	}{
		{
			name:        "the newer epoch tells the leader",
			one:         topicMetadata{id: id, partitions: 2, leaders: []int32{1, 1}, epochs: []int32{4, 6}},
			two:         topicMetadata{id: id, partitions: 2, leaders: []int32{2, 2}, epochs: []int32{5, 5}},
			wantLeaders: []int32{2, 1}, wantPartition: 2,
		},
		{
			name:        "a broker that lags has fewer partitions",
			one:         topicMetadata{id: id, partitions: 1, leaders: []int32{2}, epochs: []int32{9}},
			two:         topicMetadata{id: id, partitions: 2, leaders: []int32{1, 1}, epochs: []int32{4, 6}},
			wantLeaders: []int32{2, 1}, wantPartition: 2,
		},
		{
			name:        "no leader of a newer epoch",
			one:         topicMetadata{id: id, partitions: 1, leaders: []int32{1}, epochs: []int32{4}},
			two:         topicMetadata{id: id, partitions: 1, leaders: []int32{noLeader}, epochs: []int32{5}},
			wantLeaders: []int32{noLeader}, wantPartition: 1,
		},
		{
			name:        "another incarnation of the topic",
			one:         topicMetadata{id: id, partitions: 1, leaders: []int32{1}, epochs: []int32{4}},
			two:         topicMetadata{id: other, partitions: 3, leaders: []int32{2, 2, 2}, epochs: []int32{9, 9, 9}},
			wantLeaders: []int32{1}, wantPartition: 1,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.one.merge(test.two)
			if !slices.Equal(got.leaders, test.wantLeaders) || got.partitions != test.wantPartition {
				t.Errorf("got leaders %v of %d partitions, want %v of %d", got.leaders, got.partitions, test.wantLeaders, test.wantPartition)
			}
		})
	}
}

func TestPartitionCountNeverGoesDown(t *testing.T) {
	c := &cluster{topics: make(map[string]topicMetadata), counts: make(map[topicKey]int32)}
	at := time.Now()
	remember := func(id byte, partitions int32) int32 {
		at = at.Add(time.Second)
		return c.remember(topicMetadata{name: "orders", id: sarama.Uuid{id}, partitions: partitions, at: at}).partitions
	}
	if got := []int32{remember(1, 3), remember(1, 6), remember(1, 3), remember(2, 2)}; !slices.Equal(got, []int32{3, 6, 6, 2}) {
		t.Errorf("got %v partitions, want 3, 6, 6 again, and 2 for another topic of that name", got)
	}
}

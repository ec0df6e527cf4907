package publisher

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

// TestTroubles covers what the register tells of the faults that were noted.
func TestTroubles(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	partition := func(topic string, id int32) troubleKey {
		return troubleKey{kind: troublePartition, topic: topic, partition: id}
	}
	topic := func(name string) troubleKey { return troubleKey{kind: troubleTopic, topic: name} }
	transient := verdict{classTransient, "the connection failed", ""}
	operator := verdict{classOperator, "a right is missing", "grant WRITE on topic TOPIC"}
	failed := errors.New("connection\nreset")
	denied := refusal(sarama.ErrTopicAuthorizationFailed)
	number := func(n int32) *int32 { return &n }

	tests := []struct {
		name string
		do   func(*troubles)
		want []Trouble
	}{
		{name: "nothing", do: func(*troubles) {}},
		{
			name: "a moment is no trouble",
			do:   func(r *troubles) { r.note(partition("a", 0), transient, failed, ago(4*time.Second)) },
		},
		{
			name: "what lasts is told on one line",
			do: func(r *troubles) {
				r.note(partition("a", 2), transient, failed, ago(6*time.Second))
				r.note(partition("a", 2), transient, failed, ago(time.Second))
			},
			want: []Trouble{{Topic: "a", Partition: number(2), Class: "transient", Reason: "connection reset", Since: ago(6 * time.Second)}},
		},
		{
			name: "a person is told at once, oldest first",
			do: func(r *troubles) {
				r.note(topic("b"), operator, denied, now)
				r.note(topic("a"), operator, denied, ago(time.Second))
			},
			want: []Trouble{
				{Topic: "a", Class: "operator", Reason: denied.Error(), Remedy: `grant WRITE on topic "a"`, Since: ago(time.Second)},
				{Topic: "b", Class: "operator", Reason: denied.Error(), Remedy: `grant WRITE on topic "b"`, Since: now},
			},
		},
		{
			name: "what goes on is no trouble any more",
			do: func(r *troubles) {
				r.note(topic("a"), operator, denied, now)
				r.note(partition("b", 1), operator, denied, now)
				r.note(partition("c", 1), operator, denied, now)
				r.clear(topic("a"))
				r.clearPartitions("b")
				r.clear(partition("c", 1))
			},
		},
		{
			name: "the leaders of a topic that is not found are not told besides",
			do: func(r *troubles) {
				r.note(topic("a"), operator, denied, now)
				r.note(troubleKey{kind: troubleLeaders, topic: "a"}, operator, denied, now)
			},
			want: []Trouble{{Topic: "a", Class: "operator", Reason: denied.Error(), Remedy: `grant WRITE on topic "a"`, Since: now}},
		},
		{
			name: "many partitions alike are told as one",
			do: func(r *troubles) {
				for id := range int32(300) {
					r.note(partition("a", id), operator, denied, ago(time.Duration(id)*time.Millisecond))
				}
			},
			want: []Trouble{{
				Topic: "a", Class: "operator", Reason: "300 partitions, among them 299: " + denied.Error(),
				Remedy: `grant WRITE on topic "a"`, Since: ago(299 * time.Millisecond),
			}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			register := newTroubles()
			test.do(register)
			if got := register.list(now); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			register.clearAll()
			if got := register.list(now); got != nil {
				t.Errorf("after the session: got %+v, want nothing", got)
			}
		})
	}
}

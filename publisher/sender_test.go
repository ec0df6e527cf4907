package publisher

import "testing"

func TestRequestsFillBehindOneUnderWay(t *testing.T) {
	const broker, other = 1, 2
	waiting := func(leader int32, bytes ...int) *partition {
		p := &partition{leader: leader}
		for _, n := range bytes {
			p.queue = append(p.queue, &batch{bytes: n})
		}
		return p
	}
	small := waiting(broker, 100, fullBytes)
	tests := []struct {
		name     string
		inFlight int
		retry    bool
		ready    []*partition
		want     bool
	}{
		{"nothing under way", 0, false, []*partition{small}, true},
		{"little", 1, false, []*partition{small, small}, false},
		{"enough of one partition", 1, false, []*partition{small, waiting(broker, fullBytes)}, true},
		{"enough of several", 2, false, []*partition{waiting(broker, fullBytes/2), waiting(broker, fullBytes/2)}, true},
		{"a retry waits for nothing", 1, true, []*partition{small}, true},
		{"a partition that has moved", 1, false, []*partition{small, waiting(other, 100)}, true},
		{"a partition that has nothing any more", 1, false, []*partition{small, waiting(broker)}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sn := &sender{senderKey: senderKey{broker: broker, retry: tt.retry}, inFlight: tt.inFlight, ready: tt.ready}
			if got := sn.worthSending(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

package replication

import (
	"testing"
	"time"
)

func TestBacklogTellsItFromATrickle(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name  string
		n     int           // bytes of a read
		every time.Duration // between reads
		began bool          // whether there was a backlog before
		want  bool
	}{
		{"one row a second", 500, time.Second, false, false},
		{"a thousand rows a second", 500, ms, false, false},
		{"five thousand rows a second", 2500, ms, false, false},
		{"ten thousand rows a second", 5000, ms, false, true},
		{"a walsender at half its speed", 25 << 10, ms, false, true},
		{"a walsender at full speed, message by message", 500, 5 * time.Microsecond, false, true},
		{"a starved walsender goes on", 3 << 10, ms, true, true},
		{"the end of a backlog", 500, ms, true, false},
		{"the end of a backlog after silence", 500, time.Second, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			b := backlog{since: now, on: tt.began}
			for end := now.Add(20 * max(ms, tt.every)); now.Before(end); {
				now = now.Add(tt.every)
				b.note(tt.n, now)
			}
			if b.on != tt.want {
				t.Errorf("got %v, want %v", b.on, tt.want)
			}
		})
	}
}

func TestOneLargeTransactionIsABacklogAtOnce(t *testing.T) {
	now := time.Now()
	b := backlog{}
	b.note(500, now)
	b.note(backlogBytes, now.Add(time.Microsecond))
	if !b.on {
		t.Error("no backlog")
	}
	b.end()
	if b.on {
		t.Error("a backlog that has ended goes on")
	}
}

func TestTrickleBehindABacklogIsNone(t *testing.T) {
	for _, before := range []backlog{{}, {since: time.Now(), bytes: backlogBytes, on: true}} {
		b := before
		b.end()
		now := time.Now()
		for i := range 100 {
			if b.note(500, now); b.on {
				t.Fatalf("read %d of a trickle passes for a backlog", i)
			}
			now = now.Add(time.Millisecond)
		}
	}
}

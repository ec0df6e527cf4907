package replication

import (
	"testing"
	"time"
)

func TestProofCountsByTheClockThatSaysMore(t *testing.T) {
	sent := time.Now()
	if got := Age(sent, sent.Add(3*time.Second)); got != 3*time.Second {
		t.Errorf("got %s, want 3s", got)
	}
	// Suspended for an hour: the monotonic clock stood still.
	if got := Age(sent, sent.Round(0).Add(time.Hour)); got < time.Hour-time.Second {
		t.Errorf("got %s, want an hour", got)
	}
	for timeout, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, time.Minute: 10 * time.Second, 4 * time.Second: 2 * time.Second,
	} {
		if got := proofLimit(timeout); got != want {
			t.Errorf("wal_sender_timeout %s: got %s, want %s", timeout, got, want)
		}
	}
}

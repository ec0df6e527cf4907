package publisher

import (
	"testing"
	"time"
)

func TestProofCountsByTheClockThatSaysMore(t *testing.T) {
	sent := time.Now()
	if got := age(sent, sent.Add(3*time.Second)); got != 3*time.Second {
		t.Errorf("got %s, want 3s", got)
	}
	// Suspended for an hour: the monotonic clock stood still.
	if got := age(sent, sent.Round(0).Add(time.Hour)); got < time.Hour-time.Second {
		t.Errorf("got %s, want an hour", got)
	}
}

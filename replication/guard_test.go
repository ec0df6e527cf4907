package replication

import (
	"testing"
	"time"
)

func TestProofLimit(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, time.Minute: 10 * time.Second, 4 * time.Second: 2 * time.Second,
	} {
		if got := proofLimit(timeout); got != want {
			t.Errorf("wal_sender_timeout %s: got %s, want %s", timeout, got, want)
		}
	}
}

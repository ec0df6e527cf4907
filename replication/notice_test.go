package replication

import (
	"fmt"
	"testing"
	"time"
)

func TestNoticesAreNotRepeated(t *testing.T) {
	var said remarks
	now := time.Now()
	for _, step := range []struct {
		text  string
		after time.Duration
		worth bool
	}{
		{"a", 0, true}, {"a", 0, false}, {"b", 0, true}, {"a", remarkPause / 2, false}, {"b", remarkPause, true}, {"a", 0, true}, {"a", 0, false},
	} {
		now = now.Add(step.after)
		if got := said.worth(step.text, now); got != step.worth {
			t.Errorf("%q at %s: got %v, want %v", step.text, now, got, step.worth)
		}
	}
	for i := range 1000 {
		said.worth(fmt.Sprint(i), now)
	}
	if len(said) > 100 {
		t.Errorf("%d remarks are remembered", len(said))
	}
}

//go:build linux || darwin

package integration

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// shownSlot is what "slot show -o json" tells about lag.
type shownSlot struct {
	Active        int        `json:"active_pid"`
	InactiveSince *time.Time `json:"inactive_since"`
	LagBytes      int64      `json:"lag_bytes"`
	LagSeconds    *float64   `json:"lag_seconds"`
	LagBound      string     `json:"lag_seconds_bound"`
	Client        *struct {
		User        string `json:"user"`
		Application string `json:"application_name"`
		Address     string `json:"address"`
	} `json:"client"`

	asked time.Time
}

func (o *outbox) show() shownSlot {
	o.t.Helper()
	s := shownSlot{asked: time.Now()}
	result := o.command("slot", "show", "-o", "json")
	if result.Code != 0 || result.Stderr != "" {
		o.t.Fatalf("slot show ended with %d: %s", result.Code, result.Stderr)
	}
	if err := json.Unmarshal([]byte(result.Stdout), &s); err != nil {
		o.t.Fatalf("%v in %s", err, result.Stdout)
	}
	return s
}

// awaitBound waits until the lag in time is known in a way.
func (o *outbox) awaitBound(bound string) (s shownSlot) {
	o.t.Helper()
	harness.Eventually(o.t, patience, func() error {
		if s = o.show(); s.LagBound != bound || s.LagSeconds == nil {
			return fmt.Errorf("the lag in time is known as %q, not yet as %q", s.LagBound, bound)
		}
		return nil
	})
	return s
}

// TestSlotLagInTime compares what is said of the lag in time with what is true:
// of a relay that has caught up, of one that stands still, and of none.
func TestSlotLagInTime(t *testing.T) {
	k := proxiedKafka(t, 1)
	o := newOutbox(t, outboxConfig{kafka: k})
	r := o.start()
	o.insert(5)
	o.awaitDrained()
	s := o.awaitBound("exact")
	if s.Active != o.walsender() || s.Client == nil || s.Client.User != "postgres" || s.Client.Application != "outbox-cdc" || s.Client.Address != "127.0.0.1" {
		t.Errorf("got the holder %d, %+v", s.Active, s.Client)
	}

	// With a clean stop the record is as new as the slot.
	r.stop()
	r = o.start()
	k.Broker(0).Proxy().Stall(harness.BothWays)
	o.insert(5)
	behind := time.Now()
	// The server goes on to show how long the last confirmation took.
	s = o.awaitBound("at_most")
	if truth := s.asked.Sub(behind).Seconds(); *s.LagSeconds < truth {
		t.Errorf("the lag is at most %gs, and in truth %gs", *s.LagSeconds, truth)
	}
	k.Broker(0).Proxy().Resume()
	o.awaitDrained()
	stopping := time.Now()
	r.stop()

	stopped := time.Now()
	o.insert(5)
	if o.pg.Version() >= 17 {
		s = o.awaitBound("at_least")
		if truth := time.Since(stopping).Seconds(); s.InactiveSince == nil || *s.LagSeconds > truth {
			t.Errorf("the lag is at least %gs, and in truth %gs", *s.LagSeconds, truth)
		}
	} else {
		s = o.awaitBound("at_most")
		if truth := s.asked.Sub(stopped).Seconds(); *s.LagSeconds < truth {
			t.Errorf("the lag is at most %gs, and in truth %gs", *s.LagSeconds, truth)
		}
	}
	o.start()
	o.awaitDrained()
	o.verify()
}

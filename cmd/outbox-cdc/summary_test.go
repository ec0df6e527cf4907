package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

func TestSummarySaysWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make(chan string, 10)
		var current atomic.Pointer[publisher.Progress]
		current.Store(&publisher.Progress{})
		h := newHealth()
		h.sawSlot(replication.Slot{LagBytes: 4096})
		log, err := newLogger(writerFunc(func(line string) { lines <- line }), "info", "json")
		if err != nil {
			t.Fatal(err)
		}
		s := &summary{log: log, interval: time.Minute, health: h, progress: func() publisher.Progress { return *current.Load() }}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.run(ctx)
		synctest.Wait()
		expect := func(what string, progress publisher.Progress, want map[string]any) {
			t.Helper()
			current.Store(&progress)
			time.Sleep(time.Minute)
			synctest.Wait()
			var got map[string]any
			if len(lines) > 0 {
				line := <-lines
				if err := json.Unmarshal([]byte(line), &got); err != nil {
					t.Fatalf("%s: %q: %v", what, line, err)
				}
				delete(got, slog.TimeKey)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		line := func(change map[string]any) map[string]any {
			all := map[string]any{"level": "INFO", "msg": "summary", "events": 0.0, "per_second": 0.0, "recognised": 0.0, "dead_lettered": 0.0,
				"lag_bytes": 4096.0, "lag": "0s", "in_flight": 0.0, "in_flight_bytes": 0.0}
			for name, value := range change {
				all[name] = value
			}
			return all
		}
		var progress publisher.Progress
		expect("nothing happened", progress, nil)
		progress = publisher.Progress{Published: 90, Recognised: 2, DeadLettered: 1}
		expect("events", progress, line(map[string]any{"events": 90.0, "per_second": 1.5, "recognised": 2.0, "dead_lettered": 1.0}))
		expect("nothing again", progress, nil)
		progress.Pending, progress.InFlightBytes, progress.LastCommit = 7, 700, time.Now().Add(time.Minute-90*time.Second)
		expect("events that wait", progress, line(map[string]any{"lag": "1m30s", "in_flight": 7.0, "in_flight_bytes": 700.0}))
		progress.Pending, progress.InFlightBytes = 0, 0
		expect("they are gone", progress, nil)
	})
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

func TestLogSaysValuesInWords(t *testing.T) {
	var out bytes.Buffer
	log, err := newLogger(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	position := decoder.Position{CommitLSN: 0x10, Index: 2, CommitTime: 3}
	log.Warn("said", "pause", 1500*time.Millisecond, "lsn", pglogrepl.LSN(0x100000020), "position", position,
		"error", errors.New("why"), "level_of", slog.LevelError, "count", 7)
	var said map[string]any
	if err := json.Unmarshal(out.Bytes(), &said); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"level": "WARN", "msg": "said", "pause": "1.5s", "lsn": "1/20", "position": position.String(), "error": "why", "level_of": "ERROR", "count": 7.0,
	} {
		if said[name] != want {
			t.Errorf("%s: got %v, want %v", name, said[name], want)
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, said["time"].(string)); err != nil {
		t.Errorf("time: %v", err)
	}
}

package checkpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"
)

func TestJudge(t *testing.T) {
	// This process had the session "ours", which began at 0/1000 and confirmed
	// up to 0/2000.
	var own Memory
	own.Began("ours", 0x1000)
	own.Confirmed(0x2000)
	own.Confirmed(0x1800)
	record := func(confirmed pglogrepl.LSN, session string, clean bool) *Record {
		return &Record{Slot: "orders", Confirmed: confirmed, SystemID: "7", Session: session, Clean: clean}
	}
	tests := []struct {
		name     string
		rec      *Record
		position pglogrepl.LSN
		own      Memory
		moved    bool
		warned   bool
	}{
		{"no record", nil, 0x5000, own, false, false},
		{"after a clean end, where it was left", record(0x2000, "theirs", true), 0x2000, Memory{}, false, false},
		{"after a clean end, moved back by a crash of the server", record(0x2000, "theirs", true), 0x1000, Memory{}, false, false},
		{"after a clean end, advanced", record(0x2000, "theirs", true), 0x2001, Memory{}, true, false},
		{"after a clean end, beyond 32 bits", record(0xffffffff, "theirs", true), 0x1_0000_0010, Memory{}, true, false},
		{"after our own clean end, advanced", record(0x2000, "ours", true), 0x2001, own, true, false},
		{"after a crash, ahead of the record", record(0x1000, "theirs", false), 0x2000, Memory{}, false, true},
		{"after a crash, at the record", record(0x1000, "theirs", false), 0x1000, Memory{}, false, false},
		{"after another holder, ahead of the record", record(0x2000, "theirs", false), 0x3000, own, false, true},
		{"our session broke, within what it confirmed", record(0x1000, "ours", false), 0x2000, own, false, false},
		{"our session broke, the slot was advanced", record(0x1000, "ours", false), 0x2001, own, true, false},
		{"accepted by slot create or slot advance", record(0x3000, "", true), 0x3000, own, false, false},
		{"accepted, and advanced again", record(0x3000, "", true), 0x3001, own, true, false},
		{"a record of another server", &Record{Slot: "orders", Confirmed: 0x1000, SystemID: "8", Clean: true}, 0x9000, Memory{}, false, true},
		{"a record of an unknown server", &Record{Slot: "orders", Confirmed: 0x1000, Clean: true}, 0x9000, Memory{}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			warning, err := Judge(tt.rec, tt.position, "7", tt.own)
			if errors.Is(err, ErrMoved) != tt.moved || (err != nil) != tt.moved || (warning != "") != tt.warned {
				t.Fatalf("got %v and the warning %q", err, warning)
			}
			if tt.moved && !strings.Contains(err.Error(), tt.position.String()) {
				t.Errorf("%s is not in %v", tt.position, err)
			}
		})
	}
}

func TestSessionsHaveNamesOfTheirOwn(t *testing.T) {
	if a, b := NewSession(), NewSession(); a == b || a == "" {
		t.Errorf("got %q and %q", a, b)
	}
}

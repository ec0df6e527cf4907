package main

import (
	"testing"

	"github.com/outbox-cdc/outbox-cdc/replication"
)

// What decides which messages the server sends decides which position an event
// has. Were the prefix not part of the origin, then the position of an event of
// one prefix could pass for that of another's, which would be skipped.
func TestOriginOfAStream(t *testing.T) {
	seen := make(map[string]string)
	for name, cfg := range map[string]replication.Config{
		"a publication":                     {Publication: "a"},
		"another publication":               {Publication: "b"},
		"messages":                          {Publication: "a", MessagePrefix: "outbox"},
		"messages of another prefix":        {Publication: "a", MessagePrefix: "outbox2"},
		"a name that looks like both":       {Publication: `a" messages="outbox`},
		"messages with another publication": {Publication: "b", MessagePrefix: "outbox"},
	} {
		origin := (&relay{source: cfg}).origin()
		if other, twice := seen[origin]; twice {
			t.Errorf("%s and %s have the same origin, %s", name, other, origin)
		}
		seen[origin] = name
	}
}

package publisher

import (
	"testing"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// What a batch was made of is used again, but not while somebody may read it.
func TestMemoryOfBatches(t *testing.T) {
	rows := recordsOf(order("e0", "a"), order("e1", "a"), order("e2", "a"))
	for name, tt := range map[string]struct {
		prepare func(*batch)
		reused  bool
	}{
		"acknowledged":                       {func(*batch) {}, true},
		"in a request that was given up too": {func(b *batch) { b.reading = 1 }, false},
		"half of another":                    {func(b *batch) { *b, _ = splitOf(b) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var m memory
			b := &batch{}
			for _, r := range rows {
				b.add(r, &m)
			}
			tt.prepare(b)
			records := b.records
			m.give(b)
			next := &batch{}
			next.add(rows[0], &m)
			if reused := &next.records[0] == &records[0]; reused != tt.reused {
				t.Errorf("reused: %t, want %t", reused, tt.reused)
			}
			if !tt.reused && string(records[0].row.Field(decoder.FieldID)) != "e0" {
				t.Error("the records have changed under whoever reads them")
			}
		})
	}
}

func splitOf(b *batch) (left, right batch) {
	l, r := b.split()
	return *l, *r
}

// A list that grows under a sender that still reads it stays what it is.
func TestRecordsThatAreReadStay(t *testing.T) {
	rows := recordsOf(order("e0", "a"))
	var m memory
	b := &batch{reading: 1}
	for range minRecords {
		b.add(rows[0], &m)
	}
	read := b.records
	b.add(rows[0], &m)
	if read[0].row.Relation() == nil {
		t.Error("the records are gone")
	}
}

func TestMemoryKeepsLittle(t *testing.T) {
	var m memory
	for range 2 * keptBytes / maxBlockBytes {
		m.blocks.give(make([]byte, maxBlockBytes))
	}
	if m.blocks.kept > keptBytes {
		t.Errorf("%d bytes are kept, want at most %d", m.blocks.kept, keptBytes)
	}
	m.lists.give(make([]record, 16)[3:])
	if got := cap(m.lists.take(13)); got < 13 {
		t.Errorf("room for %d records, want 13", got)
	}
}

package checkpoint

import (
	"testing"

	"github.com/jackc/pglogrepl"
)

func TestPosition(t *testing.T) {
	for _, tt := range []struct {
		name string
		lsns []pglogrepl.LSN
		want pglogrepl.LSN
	}{
		{"nothing confirmed", nil, 0},
		{"forward", []pglogrepl.LSN{10, 20}, 20},
		{"back", []pglogrepl.LSN{20, 10}, 20},
		{"the same again", []pglogrepl.LSN{20, 20}, 20},
		{"to zero", []pglogrepl.LSN{20, 0}, 20},
		{"beyond 4 GB", []pglogrepl.LSN{0x16_b374d848, 0xffffffff}, 0x16_b374d848},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p Position
			for _, lsn := range tt.lsns {
				p.Advance(lsn)
			}
			if got := p.Load(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPositionGrowsForOtherGoroutines(t *testing.T) {
	const last = 100_000
	var p Position
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lsn := pglogrepl.LSN(1); lsn <= last; lsn++ {
			p.Advance(lsn)
		}
	}()
	for seen := pglogrepl.LSN(0); seen < last; {
		lsn := p.Load()
		if lsn < seen {
			t.Errorf("got %d after %d", lsn, seen)
			break
		}
		seen = lsn
	}
	<-done
}

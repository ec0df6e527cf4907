package replication

import (
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"
)

// slotColumnCount is the number of columns of slotColumns.
const slotColumnCount = 22

// scanSlot reads a row of slotColumns in text form.
func scanSlot(row [][]byte) (Slot, error) {
	if len(row) != slotColumnCount {
		return Slot{}, fmt.Errorf("read a slot: %d columns", len(row))
	}
	t := textRow{values: row}
	s := Slot{
		Name: t.text(), Plugin: t.text(), Type: t.text(), Database: t.text(), CurrentDatabase: t.text(),
		Temporary: t.bool(), TwoPhase: t.bool(), Failover: t.bool(), Synced: t.bool(),
		ActivePID: uint32(t.int()), InactiveSince: t.optionalTime(), WALStatus: t.text(), InvalidationReason: t.text(),
		Restart: t.lsn(), Confirmed: t.lsn(), Unmeasured: t.bool(), LagBytes: t.int(), RetainedBytes: t.int(),
		SafeWALBytes: t.optionalInt(), XminAge: t.int(), OnStandby: t.bool(),
	}
	if now := t.optionalTime(); now != nil {
		s.ServerTime = *now
	}
	if t.err != nil {
		return Slot{}, fmt.Errorf("read slot %q: %w", s.Name, t.err)
	}
	return s, nil
}

// textRow reads a row of text values from left to right and keeps the first
// error.
type textRow struct {
	values [][]byte
	err    error
}

func (t *textRow) text() string {
	v := t.values[0]
	t.values = t.values[1:]
	return string(v)
}

func (t *textRow) bool() bool {
	switch v := t.text(); v {
	case "t", "true":
		return true
	case "f", "false":
	default:
		t.fail(fmt.Errorf("%q is not a boolean", v))
	}
	return false
}

func (t *textRow) int() int64 {
	n, err := strconv.ParseInt(t.text(), 10, 64)
	t.fail(err)
	return n
}

// optionalInt is nil for an empty text.
func (t *textRow) optionalInt() *int64 {
	if len(t.values[0]) == 0 {
		t.text()
		return nil
	}
	n := t.int()
	return &n
}

// optionalTime is nil for an empty text.
func (t *textRow) optionalTime() *time.Time {
	text := t.text()
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	t.fail(err)
	return &at
}

func (t *textRow) lsn() pglogrepl.LSN {
	lsn, err := pglogrepl.ParseLSN(t.text())
	t.fail(err)
	return lsn
}

func (t *textRow) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

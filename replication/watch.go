package replication

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
)

const (
	// watchInterval is how often the guard looks at the slot.
	watchInterval = 5 * time.Second
	// heldBackAfter is how long a walsender may wait for standbys before that
	// is worth a word: each commit has it wait for a moment.
	heldBackAfter = 10 * time.Second
	// waitForStandbys is what pg_stat_activity says of a walsender that waits
	// for the standbys of synchronized_standby_slots (PostgreSQL 17 and later).
	waitForStandbys = "WaitForStandbyConfirmation"
)

// slotWatch looks at the slot of a session and at what its walsender waits for.
// It belongs to the goroutine of Guard.Run.
type slotWatch struct {
	guard    *Guard
	received func() pglogrepl.LSN // by the stream

	// waiting is since when the walsender was found waiting for standbys at
	// every look while nothing came; zero if it was not.
	waiting time.Time
	at      pglogrepl.LSN
	blind   bool // the role may not ask

	heldSaid, dangerSaid bool // what is in the log
}

// Danger says why a slot is about to be lost, one line for an operator. It is
// empty if the slot is not.
func (s Slot) Danger() string {
	if s.WALStatus != "unreserved" {
		return ""
	}
	return fmt.Sprintf("slot %q retains %d bytes of WAL, more than max_slot_wal_keep_size allows, and is lost with the next checkpoint unless it is confirmed before; "+
		"find out what holds it up, or raise the setting", s.Name, s.RetainedBytes)
}

// look asks for the state of the slot and passes it on. A slot that has become
// unusable is a fault.
func (w *slotWatch) look(ctx context.Context) error {
	cfg := w.guard.cfg
	var slot Slot
	var held string
	err := w.guard.query(ctx, func(ctx context.Context) (err error) {
		if slot, err = ShowSlot(ctx, w.guard.conn, cfg.Slot); err != nil {
			return err
		}
		held, err = w.heldBack(ctx, slot, time.Now())
		return err
	})
	if err != nil {
		return err
	}
	if cfg.Watch != nil {
		cfg.Watch(slot)
	}
	if cfg.HeldBack != nil {
		cfg.HeldBack(held)
	}
	w.say(slot, held)
	return slot.usable()
}

// say logs that the stream is held back or the slot in danger, and that it no
// longer is, once each.
func (w *slotWatch) say(slot Slot, held string) {
	log, danger := w.guard.cfg.log(), slot.Danger()
	switch {
	case held != "" && !w.heldSaid:
		log.Warn(held)
	case held == "" && w.heldSaid:
		log.Info("the server sends again", "slot", slot.Name)
	}
	switch {
	case danger != "" && !w.dangerSaid:
		log.Warn(danger)
	case danger == "" && w.dangerSaid:
		log.Info("the slot is out of danger", "slot", slot.Name, "wal_status", slot.WALStatus)
	}
	w.heldSaid, w.dangerSaid = held != "", danger != ""
}

// heldBack says why the walsender sends nothing although there is something,
// or nothing.
func (w *slotWatch) heldBack(ctx context.Context, slot Slot, now time.Time) (string, error) {
	var event string
	err := w.guard.conn.QueryRow(ctx, `SELECT coalesce((SELECT wait_event FROM pg_stat_activity WHERE pid = $1), '')`, w.guard.pid).Scan(&event)
	if isCode(err, "42501") {
		if !w.blind {
			w.blind = true
			w.guard.cfg.log().Warn("a server that holds the slot back will not be noticed", "slot", slot.Name,
				"reason", explain(ctx, w.guard.conn, err).Error())
		}
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask what the walsender of slot %q waits for: %w", slot.Name, err)
	}
	at := w.received()
	if event != waitForStandbys || slot.LagBytes == 0 {
		w.waiting = time.Time{}
		return "", nil
	}
	if w.waiting.IsZero() || at != w.at {
		w.waiting, w.at = now, at
	}
	if now.Sub(w.waiting) < heldBackAfter {
		return "", nil
	}
	return w.standbys(ctx, slot)
}

// standbys names the slots of standbys that the server waits for.
func (w *slotWatch) standbys(ctx context.Context, slot Slot) (string, error) {
	var setting string
	var absent []string
	err := w.guard.conn.QueryRow(ctx, `SELECT s.value, ARRAY(
  SELECT format('%L', n.name) || CASE WHEN r.slot_name IS NULL THEN ' does not exist' ELSE ' has no standby' END
  FROM unnest(string_to_array(replace(replace(s.value, ' ', ''), '"', ''), ',')) AS n(name) LEFT JOIN pg_replication_slots r ON r.slot_name = n.name
  WHERE r.active IS NOT TRUE)
FROM (SELECT current_setting('synchronized_standby_slots')) AS s(value)`).Scan(&setting, &absent)
	if err != nil {
		return "", fmt.Errorf("read synchronized_standby_slots: %w", err)
	}
	why := "their standbys are behind"
	if len(absent) > 0 {
		why = strings.Join(absent, ", ")
	}
	return fmt.Sprintf("the server holds slot %q back until the slots in synchronized_standby_slots = '%s' have what is to be sent: %s; "+
		"start the standby, or take its slot out: ALTER SYSTEM SET synchronized_standby_slots = '', then SELECT pg_reload_conf()", slot.Name, setting, why), nil
}

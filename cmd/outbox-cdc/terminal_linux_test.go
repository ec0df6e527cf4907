package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a terminal and the end from which it is typed on.
func terminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	return keyboard, screen
}

func TestSlotAdvanceAsksOnATerminal(t *testing.T) {
	s := newShop(t)
	s.want(codeOK, "init")
	s.insert(3)
	for _, tc := range []struct {
		answer string
		code   int
	}{{"n", codeRuntime}, {"", codeRuntime}, {"maybe", codeRuntime}, {"y", codeOK}} {
		before := s.confirmed()
		keyboard, screen := terminal(t)
		if _, err := keyboard.WriteString(tc.answer + "\n"); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		p := &program{in: screen, out: &out, err: &errs, stop: stopping{soft: t.Context(), hard: context.Background()}}
		code := p.execute([]string{"outbox-cdc", "slot", "advance", "--to", "now"})
		if code != tc.code || !strings.Contains(errs.String(), "3 rows (3 of table") || !strings.Contains(errs.String(), "Go on? [y/N]") {
			t.Errorf("%q: got exit code %d and %s%s", tc.answer, code, out.String(), errs.String())
		}
		if moved := s.confirmed() != before; moved != (tc.code == codeOK) {
			t.Errorf("%q: the slot moved: %t", tc.answer, moved)
		}
	}
}

func (s *shop) confirmed() string {
	return s.value("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.slot)
}

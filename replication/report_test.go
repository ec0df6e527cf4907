package replication

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

// Whatever the caller claims, a flush position is never 0, never goes back,
// and is never ahead of what was confirmed or of what was received.
func TestReporterKeepsTheRulesOfTheFlushPosition(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	heard := make(chan status, 1)
	go func() {
		for {
			_, body, err := readMessage(theirs)
			if err != nil {
				return
			}
			heard <- parseStatus(body)
		}
	}()
	r := reporter{conn: ours, interval: time.Second}
	now := time.Now()
	r.start(slotPosition, now)
	random := rand.New(rand.NewPCG(1, 2))
	var confirmed, received, flushed pglogrepl.LSN = 0, slotPosition, slotPosition
	for i := range 5000 {
		now = now.Add(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		if random.IntN(2) == 0 {
			lsn := pglogrepl.LSN(random.Uint64N(uint64(2*slotPosition) + uint64(i)))
			received = max(received, lsn)
			r.receive(lsn)
		}
		if random.IntN(3) == 0 {
			confirmed = pglogrepl.LSN(random.Uint64N(uint64(received) + 1000))
		}
		before := r.last
		if err := r.report(confirmed, now); err != nil {
			t.Fatal(err)
		}
		if r.last == before {
			continue
		}
		s := <-heard
		switch {
		case s.flush == 0 || s.write == 0:
			t.Fatalf("a position of 0 in %+v", s)
		case s.flush < flushed:
			t.Fatalf("flush went back from %s to %s", flushed, s.flush)
		case s.flush > received || s.write != received:
			t.Fatalf("%+v, received was %s", s, received)
		case s.flush > flushed && s.flush > confirmed:
			t.Fatalf("flush %s, confirmed was %s", s.flush, confirmed)
		}
		flushed = s.flush
	}
}

func TestReporterSpacesItsReports(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	go func() {
		for {
			if _, _, err := readMessage(theirs); err != nil {
				return
			}
		}
	}()
	r := reporter{conn: ours, interval: 10 * time.Second}
	now := time.Now()
	r.start(slotPosition, now)
	reports := 0
	for i := range pglogrepl.LSN(10000) { // ten seconds, everything moves all the time
		r.receive(slotPosition + i)
		r.owed = true
		before := r.last
		if err := r.report(slotPosition+i, now); err != nil {
			t.Fatal(err)
		}
		if r.last != before {
			reports++
		}
		now = now.Add(time.Millisecond)
	}
	if want := int(10 * time.Second / reportSpacing); reports < want-2 || reports > want+2 {
		t.Errorf("%d reports in ten seconds, want %d", reports, want)
	}
	if err := r.report(0, now); err != nil {
		t.Fatal(err)
	}
	if wake := r.wake(now); !wake.After(now) || wake.After(now.Add(reportSpacing)) {
		t.Errorf("wakes %s from now", wake.Sub(now))
	}
}

func TestStatusIntervalFollowsTheServer(t *testing.T) {
	tests := []struct {
		name    string
		cfg     Config
		timeout time.Duration
		want    time.Duration
	}{
		{"a third of wal_sender_timeout", Config{}, 6 * time.Second, 2 * time.Second},
		{"at most 10 s", Config{}, 10 * time.Minute, 10 * time.Second},
		{"10 s without wal_sender_timeout", Config{}, 0, 10 * time.Second},
		{"often enough for the silence timeout", Config{SilenceTimeout: 3 * time.Second}, time.Minute, time.Second},
		{"as configured", Config{StatusInterval: 25 * time.Second}, time.Minute, 25 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.cfg.statusInterval(tt.timeout); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A server in the middle of a large transaction that is not published answers
// only when half of wal_sender_timeout has passed.
func TestWalSenderTimeoutIsNoLongerThanOurPatience(t *testing.T) {
	for _, tt := range []struct{ server, silence, want time.Duration }{
		{time.Minute, 0, 30 * time.Second},
		{6 * time.Second, 0, 6 * time.Second},
		{time.Minute, 2 * time.Second, 2 * time.Second},
		{0, 2 * time.Second, 0}, // such a server answers all the time
	} {
		if got := (Config{SilenceTimeout: tt.silence}).walSenderTimeout(tt.server); got != tt.want {
			t.Errorf("server %s, silence %s: got %s, want %s", tt.server, tt.silence, got, tt.want)
		}
	}
}

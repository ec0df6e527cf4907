package replication

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

func TestStreamHandsOverWhatTheServerSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{}, 100)
		w.say(relationMessage(), transaction(0x2000, 3, 10), transaction(0x3000, 1, 10), keepaliveMessage(0x4000, false))
		synctest.Wait()
		var events int
		var markers []pglogrepl.LSN
		for len(w.out) > 0 {
			c := <-w.out
			for _, e := range c.Entries {
				if e.Row.Relation() != nil {
					events++
				}
				if e.Marker != 0 {
					markers = append(markers, e.Marker)
				}
			}
			c.Release()
		}
		if events != 4 || len(markers) != 2 || markers[0] != 0x2000 || markers[1] != 0x4000 {
			t.Errorf("got %d events and the markers %s, want 4 and 0/2000 0/4000", events, markers)
		}
		if got := w.stream.Received(); got != 0x4000 {
			t.Errorf("received up to %s, want 0/4000", got)
		}
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestStreamHandsOverBoundedChunks(t *testing.T) {
	tests := []struct {
		name       string
		rows, size int
	}{
		{"many small rows", 3000, 1},
		{"few large rows", 40, 10 << 10},
		{"rows larger than the read buffer", 3, readBytes + 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t, Config{}, Server{}, 10000)
				go w.say(relationMessage(), transaction(0x7fffffff, tt.rows, tt.size))
				synctest.Wait()
				events := 0
				for len(w.out) > 0 {
					c := <-w.out
					if len(c.Entries) > chunkEntries || c.Bytes() >= chunkBytes+tt.size+100 {
						t.Errorf("a chunk has %d entries and %d bytes", len(c.Entries), c.Bytes())
					}
					for _, e := range c.Entries {
						if e.Row.Relation() != nil {
							events++
						}
					}
				}
				if events != tt.rows {
					t.Errorf("got %d events, want %d", events, tt.rows)
				}
				if err := w.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestStreamReportsNothingThatWasNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{WALSenderTimeout: 6 * time.Second}, 100)
		w.answer()
		w.say(relationMessage(), transaction(0x2000, 1, 10))
		time.Sleep(time.Minute)
		synctest.Wait()
		statuses := w.statuses()
		if len(statuses) < 30 {
			t.Errorf("%d status updates in a minute, want one every 2 s", len(statuses))
		}
		for _, s := range statuses {
			if s.flush != slotPosition {
				t.Fatalf("flush %s, want the slot's own position %s", s.flush, slotPosition)
			}
		}
		if last := statuses[len(statuses)-1]; last.write != 0x2000 {
			t.Errorf("write %s, want what was received, 0/2000", last.write)
		}
		// Beyond what this session has received no promise is believed.
		w.confirmed.Store(0x9000)
		time.Sleep(time.Second)
		synctest.Wait()
		statuses = w.statuses()
		if len(statuses) == 0 || statuses[0].flush != 0x2000 {
			t.Errorf("got %v, want a flush of 0/2000 within a second", statuses)
		}
		w.confirmed.Store(0x1500)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, s := range w.statuses() {
			if s.flush != 0x2000 {
				t.Errorf("flush went back to %s", s.flush)
			}
		}
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestStreamReportsSoonAfterThePositionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{}, 100)
		w.say(relationMessage(), transaction(0x2000, 1, 10))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		w.statuses()
		moved := time.Now()
		w.confirmed.Store(0x2000)
		s := <-w.heard
		if s.flush != 0x2000 || time.Since(moved) > 2*reportSpacing {
			t.Errorf("flush %s after %s", s.flush, time.Since(moved))
		}
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
}

// Without the reports of a blocked reader the server would end the session
// after wal_sender_timeout.
func TestStreamReportsWhileThePublisherIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{WALSenderTimeout: 6 * time.Second}, 0)
		w.say(relationMessage(), transaction(0x2000, 1, 10))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		statuses := w.statuses()
		for i := 1; i < len(statuses); i++ {
			if gap := statuses[i].at.Sub(statuses[i-1].at); gap > 2100*time.Millisecond {
				t.Fatalf("%s between two status updates", gap)
			}
		}
		if len(statuses) < 150 {
			t.Errorf("%d status updates in five minutes", len(statuses))
		}
		// What could not be read meanwhile is not silence.
		(<-w.out).Release()
		synctest.Wait()
		select {
		case err := <-w.ended:
			t.Fatalf("the session ended: %v", err)
		default:
		}
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestStreamStaysWithAnIdleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{WALSenderTimeout: time.Minute}, 100)
		w.answer() // it never says anything else
		go func() {
			for c := range w.out {
				c.Release()
			}
		}()
		select {
		case err := <-w.ended:
			t.Fatalf("the session ended: %v", err)
		case <-time.After(time.Hour):
		}
		if err := w.end(); err != nil {
			t.Error(err)
		}
		close(w.out)
	})
}

func TestStreamFindsASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newWire(t, Config{SilenceTimeout: 20 * time.Second}, Server{}, 100)
		err := <-w.ended
		if !errors.Is(err, ErrSilent) || time.Since(began) != 20*time.Second {
			t.Errorf("got %v after %s, want ErrSilent after 20s", err, time.Since(began))
		}
		w.ended <- err
		w.end()
	})
}

func TestStreamEndsWithEveryMessageThatEndsAStream(t *testing.T) {
	tests := []struct {
		name string
		say  []byte // nothing: the connection is closed
		want error  // nil: any error
	}{
		{"the server is told to stop", serverMessage(t, &pgproto3.CommandComplete{CommandTag: []byte("COPY 0")}), ErrShutdown},
		{"the server ends the copy", appendEmpty(nil, msgCopyDone), ErrShutdown},
		{"the server is ready for a query", serverMessage(t, &pgproto3.ReadyForQuery{TxStatus: 'I'}), ErrShutdown},
		{"the walsender is terminated", serverMessage(t, &pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P01", Message: "terminating connection"}), nil},
		{"the connection is closed", nil, io.ErrUnexpectedEOF},
		{"an unknown message", appendEmpty(nil, '?'), errFraming},
		{"an unknown copy message", copyData([]byte{'?'}), errFraming},
		{"an empty copy message", copyData(nil), errFraming},
		{"a short keepalive", copyData([]byte{copyKeepalive, 0, 0}), errFraming},
		{"a short XLogData", copyData([]byte{copyXLogData, 0, 0}), errFraming},
		{"a message of less than no bytes", []byte{msgCopyData, 0, 0, 0, 3}, errFraming},
		{"a message beyond all bounds", []byte{msgCopyData, 0xff, 0xff, 0xff, 0xff}, errFraming},
		{"a malformed pgoutput message", xlogMessage(0x2000, []byte{'B', 1}), decoder.ErrMalformed},
		{"an unknown pgoutput message", xlogMessage(0x2000, []byte{'S', 1}), decoder.ErrMalformed},
		{"a commit that ends beyond its own message", commitBeyondItself(0x2000), decoder.ErrMalformed},
		{"the publication did not exist, up to 17", serverMessage(t, &pgproto3.ErrorResponse{
			Severity: "ERROR", Code: "42704", Message: `publication "p" does not exist`, Routine: routinePublication}), ErrGap},
		{"the publication did not exist, from 18 on", serverMessage(t, &pgproto3.NoticeResponse{
			Severity: "WARNUNG", SeverityUnlocalized: "WARNING", Code: "55000", Message: "übersprungen", Routine: routineLoadPublications}), ErrGap},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t, Config{}, Server{}, 100)
				synctest.Wait()
				if tt.say != nil {
					w.say(tt.say)
				} else {
					w.conn.Close()
				}
				err := <-w.ended
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				w.ended <- err
				w.end()
			})
		})
	}
}

// commitBeyondItself is an empty transaction whose commit says that it ends
// behind the position of its message. Everything up to there would count as
// done once it was received.
func commitBeyondItself(end pglogrepl.LSN) []byte {
	return slices.Concat(xlogMessage(end-9, beginOf(end-8)), xlogMessage(end, commitOf(end-8, end+0x1000)))
}

func TestStreamGoesOnAfterANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{}, 100)
		w.say(
			serverMessage(t, &pgproto3.NoticeResponse{SeverityUnlocalized: "WARNING", Code: "55000", Routine: "StandbySlotsHaveCaughtup",
				Message: `replication slot "phys" specified in parameter "synchronized_standby_slots" does not have active_pid`}),
			serverMessage(t, &pgproto3.ParameterStatus{Name: "in_hot_standby", Value: "off"}),
			relationMessage(), transaction(0x2000, 1, 10))
		(<-w.out).Release()
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestKeepaliveCostsNoAllocation(t *testing.T) {
	s := newStream(Config{}, Server{}, &reader{}, slotPosition, decoder.NewPool())
	m, _, _, err := splitMessage(keepaliveMessage(0x2000, false))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if err := s.handle(m); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a keepalive costs %v allocations", n)
	}
	if len(s.chunk.Entries) != 1 {
		t.Errorf("a storm of keepalives left %d entries", len(s.chunk.Entries))
	}
}

package replication

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgproto3"
)

func TestStreamLeavesAServerThatShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{}, 100)
		w.say(relationMessage(), transaction(0x2000, 1, 10))
		time.Sleep(time.Second)
		synctest.Wait()
		w.statuses()
		began := time.Now()
		// It asks, and as soon as it has an answer it asks again.
		go func() {
			for {
				if _, err := w.conn.Write(keepaliveMessage(0x3000, true)); err != nil {
					return
				}
				if _, ok := <-w.heard; !ok {
					return
				}
			}
		}()
		err := <-w.ended
		took := time.Since(began)
		if !errors.Is(err, ErrShutdown) || took < leaveAfter || took > leaveAfter+time.Second {
			t.Errorf("got %v after %s, want ErrShutdown soon after %s", err, took, leaveAfter)
		}
		w.ended <- err
		w.end()
		close(w.heard)
	})
}

// While acknowledgements come, a server that shuts down is worth waiting for.
func TestStreamStaysWhileAServerThatShutsDownGetsAcknowledgements(t *testing.T) {
	var f farewell
	now := time.Now()
	for i := range 200 {
		if f.asked(0x3000, pglogrepl.LSN(0x2000+i/10), now) {
			t.Fatalf("left after %d questions", i)
		}
		now = now.Add(reportSpacing)
	}
}

func TestFarewellTakesAQuestionNowAndThenForNormal(t *testing.T) {
	var f farewell
	now := time.Now()
	for i := range 100 {
		if f.asked(0x3000, 0x2000, now) {
			t.Fatalf("left after %d questions", i)
		}
		now = now.Add(30 * time.Second)
	}
}

func TestFinishReportsUntilPublishedAndAwaitsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{WALSenderTimeout: 6 * time.Second}, 100)
		w.say(relationMessage(), transaction(0x2000, 1, 10))
		(<-w.out).Release()
		w.stop()
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		published := make(chan struct{})
		finished := make(chan error, 1)
		go func() { finished <- w.stream.Finish(context.Background(), w.position, published) }()
		synctest.Wait()
		w.statuses()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.statuses()); n < 30 {
			t.Errorf("%d status updates in a minute of waiting", n)
		}
		w.confirmed.Store(0x2000)
		// What comes before the answer is dropped.
		go w.say(transaction(0x3000, 5, 100), keepaliveMessage(0x3000, false))
		synctest.Wait()
		close(published)
		if err := <-finished; err != nil {
			t.Fatal(err)
		}
		statuses := w.statuses()
		if last := statuses[len(statuses)-1]; last.flush != 0x2000 || !last.replyRequested {
			t.Errorf("the last status is %+v, want flush 0/2000 and a request for a reply", last)
		}
		w.ended <- nil
		w.end()
	})
}

// A server that shuts down leaves first, once everything is confirmed.
func TestFinishIsContentWithAServerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{}, 100)
		w.stop()
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		go w.say(serverMessage(t, &pgproto3.CommandComplete{CommandTag: []byte("COPY 0")}))
		synctest.Wait()
		published := make(chan struct{})
		close(published)
		if err := w.stream.Finish(context.Background(), w.position, published); err != nil {
			t.Error(err)
		}
		w.ended <- nil
		w.end()
	})
}

func TestFinishWaitsNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, Config{}, Server{}, 100)
		w.stop()
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		w.mute.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		began := time.Now()
		published := make(chan struct{})
		close(published)
		err := w.stream.Finish(ctx, w.position, published)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("got %v after %s, want context.DeadlineExceeded after 5s", err, took)
		}
		w.ended <- nil
		w.end()
	})
}

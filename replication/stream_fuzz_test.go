package replication

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgproto3"
)

// FuzzStream runs a whole session, Run and Finish, against a walsender that
// follows the input: messages in order and out of it, damaged, cut off, never
// heard of, or no messages at all, while a publisher acknowledges when the
// input says so. Whatever the server does, the session ends, and no status
// confirms what the publisher has not.
func FuzzStream(f *testing.F) {
	for _, seed := range append(streamSeeds(), capturedSession(f)) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		defer watchdog()()
		synctest.Test(t, func(t *testing.T) {
			s := newSessionScript(t, input)
			for len(s.rest) > 0 && !s.over {
				s.step()
				s.check()
			}
			s.finish()
		})
	})
}

// watchdog ends the process if what it watches over does not end: the fake
// clock of a bubble stands still while a goroutine is busy.
func watchdog() (done func() bool) {
	return time.AfterFunc(20*time.Second, func() { panic("the session does not end") }).Stop
}

// The operations of a script. Each takes its arguments from the bytes behind
// it.
const (
	sayBegin = iota // how far behind the last commit; from backwards on, in front of it
	sayCommit
	sayCommitOfElsewhere // the shift by which its end is beyond its own message
	sayRelation
	sayInsert
	sayInsertElsewhere
	sayMessage
	sayKeepalive // how far behind; whether it asks
	sayPgoutput  // any content of XLogData, two bytes for its length
	sayCopyData  // any content of CopyData
	sayMessageOf // any message: its type and content
	sayBytes     // anything
	sayDamaged   // the message before, with a byte changed or cut off
	sayAgain     // the message before
	sayLater     // the next message behind the one after it
	sayNotice
	sayError
	publisherAcks
	publisherStalls
	passTime
	callerStops
	sessionOps
)

// backwards is from where on a distance leads back.
const backwards = 0xf0

// said is one message of the server with what it means.
type said struct {
	bytes  []byte
	start  pglogrepl.LSN // that the session has received when it has this
	kind   byte          // of pgoutput
	commit pglogrepl.LSN // for 'B'
	event  int           // for 'I', from 1 on
}

// sessionScript is a session that follows the rest of an input.
type sessionScript struct {
	t    *testing.T
	rest []byte
	wire *wire
	// lines are what the server says. One goroutine writes them: the lock
	// between two writers of a pipe would keep the fake clock from going on.
	lines  chan []byte
	others sync.WaitGroup // goroutines of the script

	lsn, commit pglogrepl.LSN // where the server is
	previous    said
	held        *said // goes behind the next message
	events      int

	model   sessionModel
	stopped bool
	over    bool
	err     error
}

func newSessionScript(t *testing.T, input []byte) *sessionScript {
	s := &sessionScript{t: t, rest: input, lsn: slotPosition, lines: make(chan []byte, 256)}
	s.model.received, s.model.flushed = slotPosition, slotPosition
	s.model.understood = true
	s.wire = newWireHearing(t, Config{}, Server{WALSenderTimeout: 6 * time.Second}, 0, 1000)
	s.wire.mute.Store(true) // the script has the answer to CopyDone
	go s.write()
	if s.byte()&1 != 0 {
		s.others.Go(s.answer)
	}
	s.others.Go(func() { s.model.publish(s.wire.out) })
	t.Cleanup(s.leave)
	return s
}

// write writes what there is to say, as far as the session reads.
func (s *sessionScript) write() {
	for line := range s.lines {
		s.wire.conn.Write(line)
	}
}

// answer replies whenever the session asks the server to.
func (s *sessionScript) answer() {
	for range s.wire.asks {
		select {
		case s.lines <- keepaliveMessage(slotPosition, false):
		default:
		}
	}
}

func (s *sessionScript) byte() byte {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

// bytes takes a length and as many bytes.
func (s *sessionScript) bytes() []byte { return s.take(int(s.byte())) }

func (s *sessionScript) take(n int) []byte {
	n = min(n, len(s.rest))
	b := slices.Clone(s.rest[:n])
	s.rest = s.rest[n:]
	return b
}

// advance moves the server, mostly forward.
func (s *sessionScript) advance() pglogrepl.LSN {
	by := pglogrepl.LSN(s.byte())
	if by >= backwards && s.lsn > slotPosition+by {
		return s.lsn - by
	}
	s.lsn += 1 + by
	return s.lsn
}

func (s *sessionScript) step() {
	switch op := s.byte() % sessionOps; op {
	case publisherAcks:
		s.wire.confirmed.Store(uint64(s.model.ack(int(s.byte()))))
		time.Sleep(2 * reportSpacing)
	case publisherStalls:
		s.model.stall(time.Duration(s.byte()) * 100 * time.Millisecond)
	case passTime:
		time.Sleep(time.Duration(s.byte()) * 100 * time.Millisecond)
	case callerStops:
		s.stop()
	case sayLater:
		if s.held == nil {
			next := s.message(s.byte() % sessionOps)
			s.held = &next
		}
	default:
		s.say(s.message(op))
		if held := s.held; held != nil {
			s.held = nil
			s.say(*held)
		}
	}
}

// message returns the message of an operation.
func (s *sessionScript) message(op byte) said {
	switch op {
	case sayBegin:
		s.commit = s.advance()
		return s.xlog('B', s.commit-1, beginOf(s.commit))
	case sayCommit, sayCommitOfElsewhere:
		end := max(s.commit+1+pglogrepl.LSN(s.byte()), s.lsn)
		s.lsn = end
		claimed := end
		if op == sayCommitOfElsewhere {
			claimed += 1 << (s.byte() % 64)
		}
		return s.xlog('C', end, commitOf(s.commit, claimed))
	case sayRelation:
		return said{bytes: relationMessage(), kind: 'R'}
	case sayInsert:
		s.events++
		m := s.xlog('I', s.commit-1, insertOf(outboxTable.OID, s.events))
		m.event = s.events
		return m
	case sayInsertElsewhere:
		return s.xlog('I', s.commit-1, insertOf(outboxTable.OID+uint32(s.byte()), 0))
	case sayMessage:
		return s.xlog('M', s.lsn, messageOf(s.byte(), s.bytes()))
	case sayKeepalive:
		end := s.advance()
		return said{bytes: keepaliveMessage(end, s.byte()&1 != 0), start: end}
	}
	return s.nonsense(op)
}

func (s *sessionScript) xlog(kind byte, start pglogrepl.LSN, body []byte) said {
	return said{bytes: xlogMessage(start, body), start: start, kind: kind, commit: s.commit}
}

// nonsense returns what no server says, or what ends a session.
func (s *sessionScript) nonsense(op byte) said {
	switch op {
	case sayPgoutput:
		s.model.understood = false
		body := s.take(int(s.byte())<<8 | int(s.byte()))
		if len(body) > 17 && body[0] == 'C' { // at its end, as a server would
			s.lsn = max(s.lsn, pglogrepl.LSN(binary.BigEndian.Uint64(body[10:])))
		}
		return said{bytes: xlogMessage(s.lsn, body), start: s.lsn}
	case sayCopyData:
		return s.anything(copyData(s.bytes()))
	case sayMessageOf:
		kind, body := s.byte(), s.bytes()
		return s.anything(append(appendLength([]byte{kind}, len(body)), body...))
	case sayBytes:
		return s.anything(s.bytes())
	case sayDamaged:
		return s.anything(s.damaged(s.previous.bytes))
	case sayNotice:
		return said{bytes: serverMessage(s.t, &pgproto3.NoticeResponse{Severity: "WARNING", Code: string(s.bytes()), Message: "hear"})}
	case sayError:
		return said{bytes: serverMessage(s.t, &pgproto3.ErrorResponse{Severity: "FATAL", Code: string(s.bytes()), Message: "enough"})}
	}
	return s.previous
}

// anything is a message of which nobody knows what it means: it may say that
// everything has been sent.
func (s *sessionScript) anything(b []byte) said {
	s.model.understood = false
	return said{bytes: b, start: ^pglogrepl.LSN(0)}
}

// damaged returns b with a byte changed, or with its end cut off.
func (s *sessionScript) damaged(b []byte) []byte {
	b = slices.Clone(b)
	at, with := int(s.byte()), s.byte()
	if at >= len(b) {
		return nil
	}
	if b[at] == with {
		return b[:at]
	}
	b[at] = with
	return b
}

// say sends a message. A session that does not read any more has had enough.
func (s *sessionScript) say(m said) {
	s.previous = m
	s.model.hear(m)
	select {
	case s.lines <- m.bytes:
	default:
		s.rest = nil
	}
}

// check waits until the session has nothing to do and looks at what it said.
func (s *sessionScript) check() {
	s.t.Helper()
	synctest.Wait()
	for _, status := range s.wire.statuses() {
		s.model.judge(s.t, status)
	}
	if s.over {
		return
	}
	select {
	case s.err = <-s.wire.ended:
		s.over = true
		if s.err == nil && !s.stopped {
			s.t.Fatal("the session ended without an error")
		}
	default:
	}
}

// stop has the caller end Run, and leave in order while the server goes on.
func (s *sessionScript) stop() {
	if s.stopped {
		return
	}
	s.stopped = true
	s.wire.stop()
	var err error
	select {
	case err = <-s.wire.ended:
	case <-time.After(time.Minute):
		s.t.Fatal("Run goes on after its context has ended")
	}
	if err != nil {
		s.wire.ended <- err
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		published := make(chan struct{})
		close(published)
		s.wire.ended <- s.wire.stream.Finish(ctx, s.wire.position, published)
	}()
}

// finish ends the server's side. The session must end too.
func (s *sessionScript) finish() {
	s.wire.conn.Close()
	if !s.over {
		s.over = true
		select {
		case s.err = <-s.wire.ended:
		case <-time.After(time.Hour):
			s.t.Fatal("the session does not end with its connection")
		}
	}
	s.check()
}

// leave ends what is left of the session.
func (s *sessionScript) leave() {
	s.wire.conn.Close()
	if !s.over {
		s.wire.stop()
		s.err = <-s.wire.ended
	}
	s.wire.ended <- s.err
	s.wire.end()
	close(s.wire.out)
	s.others.Wait()
	close(s.lines)
}

func appendLength(b []byte, body int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(4+body))
}

// insertOf is the row of an event, whose id is a number.
func insertOf(oid uint32, event int) []byte {
	b := append(binary.BigEndian.AppendUint32([]byte{'I'}, oid), 'N', 0, 5)
	for _, v := range []string{strconv.Itoa(event), "order", "7", "OrderCreated", "{}"} {
		b = append(binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(v))), v...)
	}
	return b
}

func messageOf(flags byte, content []byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'M', flags}, 0)
	b = append(b, "prefix\x00"...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(content))), content...)
}

package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// A length is only a claim: what is held grows with what has come.
func TestReaderGrowsWithWhatHasComeAndShrinksAgain(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	r := &reader{conn: ours, source: ours, buf: make([]byte, readBytes)}
	const size = 5 * readBytes
	header := binary.BigEndian.AppendUint32([]byte{msgCopyData}, size+4)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		theirs.Write(append(header, bytes.Repeat([]byte{'x'}, size)...))
		theirs.Write(keepaliveMessage(0x2000, false))
		theirs.Write(keepaliveMessage(0x3000, false))
	}()
	var sizes []int
	for len(sizes) < 3 {
		m, ok, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			sizes = append(sizes, len(m.body))
			continue
		}
		came := r.end - r.start
		if _, err := r.fill(t.Context(), time.Now().Add(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if len(r.buf) > max(readBytes, 2*came) {
			t.Fatalf("a buffer of %d bytes for %d that had come", len(r.buf), came)
		}
	}
	<-sent
	if sizes[0] != size || sizes[1] != keepaliveBytes || sizes[2] != keepaliveBytes {
		t.Errorf("got bodies of %d bytes", sizes)
	}
	if len(r.buf) != readBytes {
		t.Errorf("a buffer of %d bytes is kept", len(r.buf))
	}
	if _, err := r.fill(t.Context(), time.Now()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want os.ErrDeadlineExceeded", err)
	}
}

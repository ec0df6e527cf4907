//go:build linux || darwin

package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pglogrepl"
)

// copyData frames the content of a CopyData.
func copyData(content []byte) []byte {
	framed := binary.BigEndian.AppendUint32([]byte{'d'}, uint32(len(content)+4))
	return append(framed, content...)
}

// change is the content of an XLogData with a message of pgoutput.
func change(message []byte) []byte {
	content := append([]byte{pglogrepl.XLogDataByteID}, make([]byte, 24)...)
	return append(content, message...)
}

func commitMessage(end uint64) []byte {
	message := append([]byte{'C', 0}, make([]byte, 8)...)
	message = binary.BigEndian.AppendUint64(message, end)
	return append(message, make([]byte, 8)...)
}

// TestPacedReaderSplits cuts a stream of three rows and a commit at every place.
func TestPacedReaderSplits(t *testing.T) {
	const end = 0x1_0000_2345
	stream := copyData(append([]byte{pglogrepl.PrimaryKeepaliveMessageByteID}, make([]byte, 17)...))
	for _, size := range []int{0, 30, 5000} {
		stream = append(stream, copyData(change(append([]byte{'I'}, bytes.Repeat([]byte{'d'}, size)...)))...)
	}
	stream = append(stream, []byte{'N', 0, 0, 0, 4}...) // a notice is no data
	stream = append(stream, copyData(change(commitMessage(end)))...)
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		p := pacedReader{buf: make([]byte, 1<<12)}
		c := tally{want: 3}
		for rest := stream; len(rest) > 0; {
			n := copy(p.buf[:1+random.IntN(1<<(round%12))], rest)
			rest = rest[n:]
			p.split(n, c.message)
			c.read(n)
		}
		if !c.done() || c.Rows != 3 || c.behind != end || c.Bytes != int64(len(stream)) || c.FirstRows < 1 {
			t.Fatalf("round %d: got %+v", round, c)
		}
		if cap(p.head) > 1024 {
			t.Fatalf("round %d: %d bytes of a message are kept", round, cap(p.head))
		}
	}
}

func TestTallyEndsWithTheCommit(t *testing.T) {
	c := tally{want: 1}
	for i, content := range [][]byte{change(commitMessage(7)), change([]byte{'I'}), {}, change(nil)} {
		if c.message(content); c.done() {
			t.Fatalf("message %d: done without a commit behind the last row", i)
		}
	}
	if c.message(change(commitMessage(8))); !c.done() || c.behind != 8 {
		t.Errorf("got %+v, want the end at 8", c)
	}
}

// TestByteReaderReadsNotAhead keeps what was not asked for in the socket.
func TestByteReaderReadsNotAhead(t *testing.T) {
	source := bytes.NewReader([]byte("handshake, stream"))
	got := make([]byte, 100)
	if _, err := io.ReadAtLeast(byteReader{source}, got, len("handshake")); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(source); err != nil || string(rest) != ", stream" {
		t.Errorf("left: got %q, %v", rest, err)
	}
}

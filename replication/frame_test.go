package replication

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

func TestStatusIsAStandbyStatusUpdate(t *testing.T) {
	s := status{write: 0x16B3748, flush: 0x16B3700, at: postgresEpoch.Add(0x1234567 * time.Microsecond), replyRequested: true}
	want := []byte{
		'd', 0, 0, 0, 38,
		'r',
		0, 0, 0, 0, 0x01, 0x6B, 0x37, 0x48, // written
		0, 0, 0, 0, 0x01, 0x6B, 0x37, 0x00, // flushed
		0, 0, 0, 0, 0x01, 0x6B, 0x37, 0x00, // applied
		0, 0, 0, 0, 0x01, 0x23, 0x45, 0x67,
		1,
	}
	if got := s.append(nil); !bytes.Equal(got, want) {
		t.Errorf("got  % x\nwant % x", got, want)
	}
}

// FuzzMessages feeds bytes from the network to everything that parses them.
func FuzzMessages(f *testing.F) {
	f.Add(keepaliveMessage(0x2000, true))
	f.Add(transaction(0x2000, 2, 10))
	f.Add([]byte{msgCopyData, 0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		rest := b
		for {
			m, size, complete, err := splitMessage(rest)
			if err != nil && !errors.Is(err, errFraming) {
				t.Fatalf("unexpected error: %v", err)
			}
			if err != nil || !complete {
				return
			}
			if size != headerBytes+len(m.body) || size > len(rest) {
				t.Fatalf("a message of %d bytes with a body of %d out of %d", size, len(m.body), len(rest))
			}
			rest = rest[size:]
			if x, err := parseXLogData(m.body); err == nil && len(x.data) != len(m.body)-xlogDataBytes {
				t.Fatalf("%d bytes of data in a body of %d", len(x.data), len(m.body))
			}
			parseKeepalive(m.body)
		}
	})
}

// pgproto3 must not read what belongs to the stream.
func TestExactReaderLeavesWhatIsBehindAMessage(t *testing.T) {
	first := serverMessage(t, &pgproto3.ParameterStatus{Name: "server_version", Value: "15.18"})
	second := serverMessage(t, &pgproto3.CopyBothResponse{})
	behind := transaction(0x2000, 1, 10)
	for name, source := range map[string]func(io.Reader) io.Reader{
		"everything at once": func(r io.Reader) io.Reader { return r },
		"byte by byte":       iotest.OneByteReader,
	} {
		t.Run(name, func(t *testing.T) {
			src := source(bytes.NewReader(bytes.Join([][]byte{first, second, behind}, nil)))
			frontend := pgproto3.NewFrontend(&exactReader{src: src}, io.Discard)
			for range 2 {
				if _, err := frontend.Receive(); err != nil {
					t.Fatal(err)
				}
			}
			rest, err := io.ReadAll(src)
			if err != nil || !bytes.Equal(rest, behind) {
				t.Errorf("%d bytes are left, want %d (%v)", len(rest), len(behind), err)
			}
		})
	}
}

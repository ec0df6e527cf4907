package replication

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

// What the server sends in one piece with its answer to START_REPLICATION is
// the stream's.
func TestOpenStreamLosesNothingThatComesWithTheAnswer(t *testing.T) {
	w := newWalsender(t, goodSlot())
	w.stream = append(relationMessage(), transaction(0x2000, 7, 10)...)
	srv := w.server()
	srv.Tables = []decoder.Table{outboxTable}
	s, err := OpenStream(t.Context(), w.config(), srv, decoder.NewPool())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan *decoder.Chunk, 10)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, out, func() pglogrepl.LSN { return 0 }) }()
	c := <-out
	if n := len(c.Entries); n != 8 || c.Entries[7].Marker != 0x2000 {
		t.Errorf("got %d entries, want 7 events and a marker", n)
	}
	if s.PID() != 4711 || s.Received() != 0x2000 || s.Flushed() != slotPosition {
		t.Errorf("pid %d, received %s, flushed %s", s.PID(), s.Received(), s.Flushed())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A deadline in the middle of a TLS record must not spoil the stream.
func TestStreamOverTLS(t *testing.T) {
	w := newWalsender(t, goodSlot())
	w.tls = &tls.Config{Certificates: []tls.Certificate{newCertificate(t)}}
	messages := append(relationMessage(), transaction(0x2000, 7, 100)...)
	w.stream = messages[:100]
	w.rest = make(chan []byte)
	cfg := w.config()
	cfg.DSN = strings.Replace(cfg.DSN, "sslmode=disable", "sslmode=require", 1)
	cfg.StatusInterval = 10 * time.Millisecond
	srv := w.server()
	srv.Tables = []decoder.Table{outboxTable}
	s, err := OpenStream(t.Context(), cfg, srv, decoder.NewPool())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan *decoder.Chunk, 100)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, out, func() pglogrepl.LSN { return 0 }) }()
	for rest := messages[100:]; len(rest) > 0; rest = rest[min(100, len(rest)):] {
		w.rest <- rest[:min(100, len(rest))]
		<-w.reported // a deadline has passed meanwhile
	}
	close(w.rest)
	for s.Received() != 0x2000 {
		select {
		case c := <-out:
			c.Release()
		case err := <-ended:
			t.Fatalf("the session ended: %v", err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func newCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestConnectionsPinTheirSettings(t *testing.T) {
	w := newWalsender(t, goodSlot())
	srv := w.server()
	srv.WALSenderTimeout = 30 * time.Second
	s, err := OpenStream(t.Context(), w.config(), srv, decoder.NewPool())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := *w.parameters.Load()
	want := map[string]string{
		"client_encoding": "UTF8", "datestyle": "ISO", "timezone": "UTC", "intervalstyle": "postgres",
		"extra_float_digits": "3", "bytea_output": "hex", "application_name": "outbox-cdc", "replication": "database",
		"wal_sender_timeout": "30000",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %q, want %q", name, got[name], value)
		}
	}
}

func TestOpenStreamRefusesASlotThatCannotBeStreamed(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Slot)
		want   error
	}{
		{"missing", func(s *Slot) { *s = Slot{} }, ErrGap},
		{"lost", func(s *Slot) { s.WALStatus = "lost" }, ErrGap},
		{"invalidated", func(s *Slot) { s.InvalidationReason = "idle_timeout" }, ErrGap},
		{"physical", func(s *Slot) { s.Type = "physical" }, ErrSetup},
		{"of another plugin", func(s *Slot) { s.Plugin = "test_decoding" }, ErrSetup},
		{"of another database", func(s *Slot) { s.Database = "other" }, ErrSetup},
		{"temporary", func(s *Slot) { s.Temporary = true }, ErrSetup},
		{"two-phase", func(s *Slot) { s.TwoPhase = true }, ErrSetup},
		{"a copy on a standby", func(s *Slot) { s.Synced, s.OnStandby = true, true }, ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			slot := goodSlot()
			tt.change(&slot)
			w := newWalsender(t, slot)
			_, err := OpenStream(t.Context(), w.config(), w.server(), decoder.NewPool())
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if w.starts.Load() != 0 {
				t.Error("START_REPLICATION was sent")
			}
		})
	}
}

func TestOpenStreamWaitsForTheHolder(t *testing.T) {
	held := goodSlot()
	held.ActivePID = 99
	w := newWalsender(t, held, held, goodSlot(), held, goodSlot())
	// Somebody else was faster, once.
	w.refuse <- &pgproto3.ErrorResponse{Severity: "ERROR", Code: "55006", Message: "replication slot is active"}
	cfg := w.config()
	holders := make(chan Holder, 10)
	cfg.Waiting = func(h Holder) { holders <- h }
	s, err := OpenStream(t.Context(), cfg, w.server(), decoder.NewPool())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if n := w.starts.Load(); n != 2 {
		t.Errorf("START_REPLICATION was sent %d times, want 2", n)
	}
	if h := <-holders; h.PID != 99 || h.Slot != "orders" || len(holders) != 0 {
		t.Errorf("got %+v and %d more, want the holder once", h, len(holders))
	}
}

func TestOpenStreamToldNotToWait(t *testing.T) {
	held := goodSlot()
	held.ActivePID = 99
	w := newWalsender(t, held)
	cfg := w.config()
	cfg.NoWait = true
	_, err := OpenStream(t.Context(), cfg, w.server(), decoder.NewPool())
	if !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

func TestOpenStreamStopsWaiting(t *testing.T) {
	held := goodSlot()
	held.ActivePID = 99
	w := newWalsender(t, held)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := w.config()
	cfg.Waiting = func(Holder) { cancel() }
	_, err := OpenStream(ctx, cfg, w.server(), decoder.NewPool())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestOpenStreamRefusesAnotherServer(t *testing.T) {
	w := newWalsender(t, goodSlot())
	srv := w.server()
	w.systemID = "8"
	if _, err := OpenStream(t.Context(), w.config(), srv, decoder.NewPool()); err == nil {
		t.Error("a stream from a server that Preflight did not look at")
	}
	srv = w.server()
	srv.endpoint = endpoint{"tcp", "127.0.0.1:1"}
	if _, err := OpenStream(t.Context(), w.config(), srv, decoder.NewPool()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
}

// A server that hangs before it streams is given up like one that hangs then.
func TestOpenStreamFindsASilentServer(t *testing.T) {
	for name, query := range map[string]string{
		"instead of identifying itself":   "IDENTIFY_SYSTEM",
		"when it is asked about the slot": slotColumns,
		"instead of starting":             "START_REPLICATION",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWalsender(t, goodSlot())
			w.unanswered = query
			cfg := w.config()
			cfg.SilenceTimeout = 50 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := OpenStream(ctx, cfg, w.server(), decoder.NewPool()); !errors.Is(err, ErrSilent) {
				t.Errorf("got %v, want ErrSilent", err)
			}
		})
	}
}

func TestOpenStreamPassesOnWhatTheServerRefuses(t *testing.T) {
	w := newWalsender(t, goodSlot())
	w.refuse <- &pgproto3.ErrorResponse{Severity: "ERROR", Code: "55000", Message: "cannot read from logical replication slot"}
	_, err := OpenStream(t.Context(), w.config(), w.server(), decoder.NewPool())
	if !isCode(err, "55000") {
		t.Errorf("got %v, want the server's error", err)
	}
}

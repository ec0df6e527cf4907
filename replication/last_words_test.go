package replication

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

func TestLastWords(t *testing.T) {
	encode := func(m pgproto3.BackendMessage) []byte {
		b, err := m.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	rows := append(relationMessage(), transaction(0x2000, 3, 10)...)
	undecodable := encode(&pgproto3.ErrorResponse{Code: "42704", Routine: routinePublication, Message: "no"})
	for _, tt := range []struct {
		name   string
		stream []byte
		want   error
	}{
		{"an error behind rows", append(rows, undecodable...), ErrGap},
		{"the end of the command", encode(&pgproto3.CommandComplete{CommandTag: []byte("COPY 0")}), ErrNotOwner},
		{"nothing that makes sense", []byte("?\xff\xff\xff\xff"), ErrNotOwner},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWalsender(t, goodSlot())
			w.stream = tt.stream
			s, err := OpenStream(t.Context(), w.config(), w.server(), decoder.NewPool())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.lastWords(t.Context(), ErrNotOwner); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

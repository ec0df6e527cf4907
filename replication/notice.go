package replication

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// slotAgain is what to do about a slot that is older than its publication.
const slotAgain = `create the slot again, after the publication, with "outbox-cdc slot drop" and "outbox-cdc slot create", and publish again what is missing`

// serverError turns an ErrorResponse into an error.
func (s *Stream) serverError(body []byte) error {
	var msg pgproto3.ErrorResponse
	if err := msg.Decode(body); err != nil {
		return fmt.Errorf("%w: %w", errFraming, err)
	}
	pgErr := pgconn.ErrorResponseToPgError(&msg)
	if pgErr.Code == "42704" && pgErr.Routine == routinePublication {
		return fault(ErrGap, "slot %q: the publication did not exist when the next rows were written (at %s or after), so the server cannot decode them; "+
			slotAgain, s.slot, s.Received()).because(pgErr)
	}
	return fmt.Errorf("walsender of slot %q: %w", s.slot, pgErr)
}

// Functions of the server that say which error or warning this is: its text
// may be translated.
const (
	routinePublication      = "get_publication_oid"
	routineLoadPublications = "LoadPublications"
)

// notice logs what the server says beside the stream. PostgreSQL 18 says so,
// and no more, when it skips rows because the publication did not exist.
func (s *Stream) notice(body []byte) error {
	var msg pgproto3.NoticeResponse
	if err := msg.Decode(body); err != nil {
		return fmt.Errorf("%w: %w", errFraming, err)
	}
	if s.remarks.worth(msg.Code+msg.Message, time.Now()) {
		logNotice(s.log, s.slot, (*pgproto3.ErrorResponse)(&msg))
	}
	if msg.Code == "55000" && msg.Routine == routineLoadPublications {
		return fault(ErrGap, "slot %q: the publication did not exist when the next rows were written (at %s or after), and the server skips them: %s; "+
			slotAgain, s.slot, s.Received(), msg.Message)
	}
	return nil
}

// remarkPause is how long the server may repeat itself before that is logged
// again: it does so with each status update while it waits for a standby.
const remarkPause = time.Minute

// remarks are what the server has said lately, by when that was logged.
type remarks map[string]time.Time

// worth reports whether a remark is worth a line now, and counts it as said.
func (r *remarks) worth(text string, now time.Time) bool {
	if last, said := (*r)[text]; said && now.Sub(last) < remarkPause {
		return false
	}
	const many = 100 // different ones
	if *r == nil || len(*r) >= many {
		*r = make(remarks)
	}
	(*r)[text] = now
	return true
}

func logNotice(log *slog.Logger, slot string, n *pgproto3.ErrorResponse) {
	level := slog.LevelInfo
	if n.SeverityUnlocalized == "WARNING" {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "notice from the server", "slot", slot, "code", n.Code, "message", n.Message, "detail", n.Detail)
}

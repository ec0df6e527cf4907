package replication

import (
	"context"
	"time"
)

// lastWordsWithin is how long the last words of a walsender may take.
const lastWordsWithin = 2 * time.Second

// lastWords returns why the server has ended the stream, once it is known that
// it has: what is not read yet may end in an error that says more than err,
// which is returned if it does not. Without it a server that cannot decode the
// next rows would look, at every start, as if another process had the slot. It
// is called in place of Run and Finish.
func (s *Stream) lastWords(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, lastWordsWithin)
	defer cancel()
	release := s.reader.interrupt(ctx)
	defer release()
	deadline := time.Now().Add(lastWordsWithin)
	for {
		said, over := s.verdict()
		if said != nil {
			return said
		}
		if over {
			return err
		}
		if _, broken := s.reader.fill(ctx, deadline); broken != nil {
			return err
		}
	}
}

// verdict goes through what has been read, without handing any of it over. It
// returns the error that the server has ended the stream with, or that the
// stream is over without one.
func (s *Stream) verdict() (said error, over bool) {
	for {
		m, ok, err := s.reader.next()
		if err != nil || !ok {
			return nil, err != nil
		}
		switch m.kind {
		case msgErrorResponse:
			return s.serverError(m.body), true
		case msgNoticeResponse:
			if err := s.notice(m.body); err != nil {
				return err, true
			}
		case msgCommandComplete, msgCopyDone, msgReadyForQuery:
			return nil, true
		}
	}
}

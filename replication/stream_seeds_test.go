package replication

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// streamSeeds are sessions that begin in a good way, one for each kind of
// trouble.
func streamSeeds() [][]byte {
	good := []byte{1, sayRelation, sayBegin, 9, sayInsert, sayInsert, sayCommit, 7, publisherAcks, 1, sayKeepalive, 5, 0}
	with := func(ops ...byte) []byte { return append(append([]byte(nil), good...), ops...) }
	return [][]byte{
		with(publisherAcks, 9, passTime, 50, callerStops, sayMessageOf, msgCopyDone, 0),
		with(sayBegin, 9, sayInsert, sayKeepalive, 9, 1, sayCommit, 0, publisherAcks, 9, sayBegin, 0, sayInsert, sayCommit, 1),
		with(sayBegin, 9, sayInsert, sayKeepalive, 9, 0, sayInsert, publisherAcks, 2, passTime, 9, sayCommit, 0),
		with(sayBegin, 9, sayInsert, sayCommitOfElsewhere, 3, 40, publisherAcks, 9, sayBegin, 20, sayInsert, sayCommit, 1, passTime, 9),
		with(sayBegin, 9, sayLater, sayInsert, sayCommit, 1, publisherAcks, 9, passTime, 30),
		with(sayLater, sayBegin, 9, sayInsert, sayCommit, 1),
		with(sayBegin, backwards+3, sayInsert, sayCommit, 1, publisherAcks, 9, passTime, 30),
		with(sayAgain, sayBegin, 4, sayAgain),
		with(sayBegin, 4, sayInsert, sayDamaged, 3, 200, passTime, 200),
		with(sayBegin, 4, sayInsert, sayDamaged, 60, 0, sayCommit, 1),
		with(sayBytes, 5, msgCopyData, 0xff, 0xff, 0xff, 0xff),
		with(sayBytes, 5, msgCopyData, 0x3f, 0xff, 0xff, 0xff, passTime, 250, passTime, 250),
		with(sayBytes, 3, msgCopyData, 0, 0, passTime, 10, sayBytes, 2, 0, 4),
		with(sayCopyData, 1, '?'),
		with(sayCopyData, 0),
		with(sayPgoutput, 0, 2, 'B', 0),
		with(sayPgoutput, 0, 0),
		with(sayMessageOf, msgCopyDone, 0),
		with(sayMessageOf, msgParameterStatus, 3, 'a', 0, 0, sayNotice, 5, '5', '5', '0', '0', '0'),
		with(sayMessageOf, msgNoticeResponse, 1, 'S'),
		with(sayError, 5, '5', '7', 'P', '0', '1'),
		with(sayMessage, 0, 2, 'h', 'i', sayBegin, 3, sayMessage, 1, 0, sayInsertElsewhere, 1, sayCommit, 2),
		with(publisherStalls, 250, sayBegin, 9, sayInsert, sayCommit, 1, sayBegin, 9, sayInsert, sayCommit, 1, passTime, 250, callerStops, sayKeepalive, 3, 1),
		with(sayKeepalive, 1, 1, passTime, 9, sayKeepalive, 0, 1, passTime, 9, sayKeepalive, 0, 1, passTime, 9),
		with(callerStops, sayBytes, 4, msgCopyData, 0, 0, 0, passTime, 250, passTime, 250, passTime, 250),
		{0, passTime, 250, passTime, 250},
	}
}

// capturedSession is what a real server sent, with everything acknowledged
// after each transaction. Lines with repetitions are left out.
func capturedSession(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("../decoder/testdata/outbox.txt")
	if err != nil {
		t.Fatal(err)
	}
	script := []byte{1}
	for line := range strings.Lines(string(text)) {
		kind, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		body, err := hex.DecodeString(digits)
		if err != nil || len(kind) != 1 || kind == "#" {
			continue
		}
		n := 1 + len(body)
		script = append(append(script, sayPgoutput, byte(n>>8), byte(n), kind[0]), body...)
		if kind == "C" {
			script = append(script, publisherAcks, 100)
		}
	}
	return append(script, callerStops, sayMessageOf, msgCopyDone, 0)
}

package publisher

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/IBM/sarama"
	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

const (
	pathPartitions = 4
	pathRowBytes   = 300
)

// path is the way of rows from the decoder to their acknowledgement, with nobody
// at the other end of the connections.
type path struct {
	*session
	t        *testing.T
	decoder  *decoder.Decoder
	pool     *decoder.Pool
	encoder  *encoder
	answer   *sarama.ProduceResponse
	messages [][]byte // of one transaction
	rowBytes int64
}

// newPath returns a path for transactions of n rows of 300 bytes. Its partitions
// are acquired.
func newPath(t *testing.T, n int) *path {
	t.Helper()
	p := newTestPublisher(t, testConfig([]string{"127.0.0.1:1"}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no helper does anything
	h := &history{}
	var events []event
	for i := range n {
		e := order(fmt.Sprintf("%036d", i), fmt.Sprintf("aggregate-%d", i%17))
		e.payload = fmt.Sprintf(`{"text":"%0*d"}`, pathRowBytes, i)
		e.metadata = `{"trace": "4711"}`
		events = append(events, e)
	}
	h.commit(events...)
	s, err := newSession(ctx, p, h.session(nil, &letters{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	if err := s.proof.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := &path{
		session: s, t: t, decoder: decoder.New([]decoder.Table{{Schema: "public", Name: "outbox_events"}}), pool: decoder.NewPool(),
		encoder: newEncoder(s.router.plans, sarama.CompressionNone), answer: &sarama.ProduceResponse{Version: produceVersion},
	}
	path.topic(testTopic)
	path.messages = append(path.messages, beginMessage(h.transactions[0]))
	for _, e := range events {
		message := insertMessage(e)
		path.rowBytes += int64(len(message)) - 6 // kind, relation and tag
		path.messages = append(path.messages, message)
	}
	path.messages = append(path.messages, commitMessage(h.transactions[0]))
	if err := path.decoder.Decode(relationMessage(), path.pool.Get()); err != nil {
		t.Fatal(err)
	}
	return path
}

// topic lays a topic whose partitions are ours.
func (p *path) topic(name string) {
	t := &topic{name: name}
	p.topics[name] = t
	p.lay(t, topicMetadata{partitions: pathPartitions})
	blocks := make(map[int32]*sarama.ProduceResponseBlock)
	for _, partition := range t.partitions {
		partition.leader, partition.acquired = 1, true
		blocks[partition.id] = &sarama.ProduceResponseBlock{}
	}
	p.answer.Blocks = map[string]map[int32]*sarama.ProduceResponseBlock{name: blocks}
}

// commit has a number of transactions come from the stream.
func (p *path) commit(transactions int) {
	p.t.Helper()
	const fullChunk = 100 // what the reader hands over of such rows
	chunk := p.pool.Get()
	for range transactions {
		for _, message := range p.messages {
			if err := p.decoder.Decode(message, chunk); err != nil {
				p.t.Fatal(err)
			}
		}
		if len(chunk.Entries) >= fullChunk {
			p.receive(chunk, true)
			chunk = p.pool.Get()
		}
	}
	p.receive(chunk, true)
}

// acknowledgeAll sends what waits and has it acknowledged.
func (p *path) acknowledgeAll() {
	p.t.Helper()
	for p.records > 0 {
		if !p.proof.fresh() { // nothing is sent without; on a busy machine a test outlasts one
			if err := p.proof.renew(p.t.Context()); err != nil {
				p.t.Fatal(err)
			}
		}
		p.dispatch()
		for _, sn := range p.order {
			select {
			case req := <-sn.requests:
				if _, err := p.encoder.encode(req.shipments); err != nil {
					p.t.Fatal(err)
				}
				p.answered(sn, req, outcome{response: p.answer})
			default:
			}
		}
	}
	p.in.Confirm(p.tracker.Confirmed())
}

// What is allocated on the way of a row from the socket to its acknowledgement is
// allocated for batches and requests, never for rows.
func TestPathAllocatesNothingPerRow(t *testing.T) {
	for _, rows := range []int{1, 100} {
		t.Run(fmt.Sprintf("transactions of %d", rows), func(t *testing.T) {
			p := newPath(t, rows)
			transactions := 2000 / rows
			round := func() {
				p.commit(transactions)
				p.acknowledgeAll()
			}
			round() // buffers grow
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			allocations := testing.AllocsPerRun(20, round) / 2000
			runtime.ReadMemStats(&after)
			bytes := float64(after.TotalAlloc-before.TotalAlloc) / 21 / 2000
			t.Logf("%.3f allocations, %.1f bytes a row", allocations, bytes)
			if allocations > 0.2 {
				t.Errorf("%.2f allocations a row, want next to none", allocations)
			}
			if bytes > 1000 { // the pools of the race detector lose a chunk now and then
				t.Errorf("%.0f bytes are allocated for a row, want next to none", bytes)
			}
			if got := p.tracker.Confirmed().LSN; got == pglogrepl.LSN(0) {
				t.Error("nothing is confirmed")
			}
		})
	}
}

// What the events that wait take is little more than their rows, and is counted.
func TestHeldMemoryIsCounted(t *testing.T) {
	const transactions, rows = 200, 100
	p := newPath(t, rows)
	before := heap()
	p.commit(transactions)
	grown := heap() - before
	row := p.rowBytes / rows
	t.Logf("a row of %d bytes takes %d, and counts for %d", row, grown/(transactions*rows), p.held/(transactions*rows))
	if most := (row + 64) * transactions * rows * 5 / 4; grown > most {
		t.Errorf("%d rows take %d bytes, want at most %d", transactions*rows, grown, most)
	}
	if grown > p.held+p.held/20 {
		t.Errorf("%d rows take %d bytes, of which %d are counted", transactions*rows, grown, p.held)
	}
	p.acknowledgeAll()
	if p.held != 0 {
		t.Errorf("%d bytes still count when everything is acknowledged", p.held)
	}
	if kept := heap() - before; kept > 2*keptBytes {
		t.Errorf("%d bytes are kept when everything is acknowledged", kept)
	}
}

// heap is what is allocated and in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

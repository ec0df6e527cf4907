//go:build linux || darwin

package publisher

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// foreignBatch is a batch of n records of size bytes without our headers.
func foreignBatch(n, size int) *sarama.RecordBatch {
	noise := rand.NewChaCha8([32]byte{})
	var records []*sarama.Record
	for range n {
		value := make([]byte, size)
		_, _ = noise.Read(value) // never fails
		records = append(records, &sarama.Record{Value: value})
	}
	return newBatch(anonymous, -1, time.Now(), records...)
}

func TestTailScan(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	large := harness.TopicConfig{Settings: map[string]string{"max.message.bytes": "20000000"}}

	tests := []struct {
		name   string
		config harness.TopicConfig
		// fill writes behind the events 1 to 3, which id has written to
		// offset 1; its next sequence is 3.
		fill func(p *testPartition, id identity)
		// want is the number of the event to be found, 0 for none.
		want int
	}{
		{name: "behind control batches", want: 3, fill: func(p *testPartition, id identity) {
			for range firstWindow + 6 {
				p.acquire()
			}
		}},
		{name: "behind foreign records", want: 3, fill: func(p *testPartition, id identity) {
			for range 3 {
				p.mustSend(foreignBatch(2000, 10))
			}
		}},
		{name: "behind more foreign bytes than are read", want: 0, config: large, fill: func(p *testPartition, id identity) {
			for range 12 {
				p.mustSend(foreignBatch(10, 90_000))
			}
		}},
		{name: "behind foreign records of several megabytes", want: 3, config: large, fill: func(p *testPartition, id identity) {
			p.mustSend(foreignBatch(1, 3_000_000))
			p.mustSend(foreignBatch(1, 3_000_000))
		}},
		{name: "in front of which there are many megabytes", want: 7, config: large, fill: func(p *testPartition, id identity) {
			for range 6 {
				p.mustSend(foreignBatch(1, 3_000_000))
			}
			p.mustSend(newBatch(id, 3, time.Now(), eventRecord(7, testOrigin)))
		}},
		{name: "of many megabytes itself", want: 8, config: large, fill: func(p *testPartition, id identity) {
			record := eventRecord(8, testOrigin)
			record.Value = foreignBatch(1, 12_000_000).Records[0].Value
			p.mustSend(newBatch(id, 3, time.Now(), record))
		}},
		{name: "behind records of another origin", want: 3, fill: func(p *testPartition, id identity) {
			p.mustSend(newBatch(anonymous, -1, time.Now(), eventRecord(9, "another"), eventRecord(10, "")))
		}},
		{name: "behind a record with a broken position", want: 3, fill: func(p *testPartition, id identity) {
			record := eventRecord(9, testOrigin)
			record.Headers[1].Value = []byte("nonsense")
			p.mustSend(newBatch(anonymous, -1, time.Now(), record))
		}},
		{name: "in the middle of a foreign batch", want: 11, fill: func(p *testPartition, id identity) {
			batch := foreignBatch(9, 10)
			p.mustSend(newBatch(id, 3, time.Now(), append(batch.Records, eventRecord(11, testOrigin), &sarama.Record{})...))
		}},
		{name: "with its records deleted", want: 0, fill: func(p *testPartition, id identity) {
			p.mustSend(foreignBatch(5, 10))
			deleteBefore(p, kafka, 6)
		}},
		{name: "with the batch around it deleted in part", want: 3, fill: func(p *testPartition, id identity) {
			deleteBefore(p, kafka, 3)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newPartition(t, kafka, c, test.config)
			acquired := p.acquire()
			p.mustSend(eventBatch(acquired.identity, 0, 1, 3, time.Now()))
			test.fill(p, acquired.identity)
			got := p.acquire()
			switch {
			case test.want == 0 && got.tail != nil:
				t.Errorf("tail is %+v, want none", *got.tail)
			case test.want != 0 && got.tail == nil:
				t.Errorf("no tail found, want event %d", test.want)
			case test.want != 0 && got.tail.position != position(test.want):
				t.Errorf("tail is %+v, want event %d", *got.tail, test.want)
			}
		})
	}
}

func deleteBefore(p *testPartition, kafka *harness.Kafka, offset int64) {
	p.t.Helper()
	if err := kafka.DeleteRecords(p.t.Context(), p.topic, 0, offset); err != nil {
		p.t.Fatal(err)
	}
}

func TestTailScanReadsCompressedBatches(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		t.Run(codec.String(), func(t *testing.T) {
			p := newPartition(t, kafka, c, harness.TopicConfig{})
			acquired := p.acquire()
			batch := eventBatch(acquired.identity, 0, 1, 200, time.Now())
			batch.Codec = codec
			offset := p.mustSend(batch)
			p.wantTail(p.acquire(), 200, offset+199)
		})
	}
}

// TestTailScanOfRandomLogs compares the scan with a plain look at everything.
func TestTailScanOfRandomLogs(t *testing.T) {
	kafka := harness.SharedKafka(t, 1)
	c := openCluster(t, kafka.Addrs())
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p := newPartition(t, kafka, c, harness.TopicConfig{})
			acquired := p.acquire()
			want, sequence := 0, int32(0)
			for range 1 + random.IntN(12) {
				switch random.IntN(4) {
				case 0:
					p.mustSend(foreignBatch(1+random.IntN(300), 1+random.IntN(2000)))
				case 1:
					acquired, sequence = p.acquire(), 0
				default:
					n := 1 + random.IntN(40)
					batch := eventBatch(acquired.identity, sequence, want+1, want+n, time.Now())
					batch.Codec = sarama.CompressionCodec(random.IntN(5))
					p.mustSend(batch)
					want, sequence = want+n, sequence+int32(n)
				}
			}
			got := p.acquire()
			if want == 0 && got.tail != nil {
				t.Errorf("tail is %+v, want none", *got.tail)
			}
			if want != 0 && (got.tail == nil || got.tail.position != position(want)) {
				t.Errorf("tail is %+v, want event %d", got.tail, want)
			}
		})
	}
}

// TestPageSkipsWhatIsOld checks that a record in front of the offset asked for,
// which a broker sends with the batch around it, is not listed.
func TestPageSkipsWhatIsOld(t *testing.T) {
	batch := eventBatch(identity{1, 0}, 0, 1, 3, time.Now())
	batch.FirstOffset = 10
	block := &sarama.FetchResponseBlock{HighWaterMarkOffset: 20, RecordsSet: []*sarama.Records{{RecordBatch: batch}}}
	p := newPage(block, 11)
	if len(p.entries) != 2 || p.entries[0].offset != 11 || p.next != 13 || p.end != 20 {
		t.Errorf("got %+v, want the offsets 11 and 12, then 13 of 20", p)
	}
	if !bytes.Equal(p.entries[1].record.Value, []byte("3")) {
		t.Errorf("last record holds %q, want %q", p.entries[1].record.Value, "3")
	}
}

//go:build linux || darwin

package harness

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Produce writes records to the partitions that they name, past the proxies,
// and waits until all in-sync replicas have them. A refusal is an error at
// once. Nothing is written twice, but what is refused for a reason that may
// pass may have been written nevertheless.
func (k *Kafka) Produce(ctx context.Context, records ...*kgo.Record) error {
	client, err := k.producer(kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, records...).FirstErr()
}

// ProduceTransaction writes records in a transaction with an id, and commits
// or aborts it.
func (k *Kafka) ProduceTransaction(ctx context.Context, id string, commit bool, records ...*kgo.Record) error {
	client, err := k.producer(kgo.TransactionalID(id))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	err = client.ProduceSync(ctx, records...).FirstErr()
	return errors.Join(err, client.EndTransaction(ctx, kgo.TransactionEndTry(commit && err == nil)))
}

func (k *Kafka) producer(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append(k.clientOptions(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression())), options...)...)
}

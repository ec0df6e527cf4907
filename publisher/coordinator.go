package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// transactionTimeout is how long a coordinator lets our empty transaction stand
// open before it ends it itself.
const transactionTimeout = 10 * time.Second

// identity is what the brokers know a producer by.
type identity struct {
	producerID int64
	epoch      int16
}

// coordinator is the broker that keeps one transactional id. The methods make one
// attempt each; an error wraps a sarama.KError if the coordinator answered.
type coordinator struct {
	cluster         *cluster
	transactionalID string
	// addr is where the coordinator was found, empty before that and after it
	// failed.
	addr string
}

// call runs one request on the coordinator and forgets its address if it is no
// longer the right one.
func (o *coordinator) call(ctx context.Context, call func(*sarama.Broker) error) error {
	if o.addr == "" {
		addr, err := o.find(ctx)
		if err != nil {
			return fmt.Errorf("find its coordinator: %w", err)
		}
		o.addr = addr
	}
	err := o.cluster.calls.call(ctx, o.addr, call)
	if mayHaveMoved(err) {
		o.addr = ""
	}
	return err
}

// mayHaveMoved reports whether the coordinator has to be looked up again after
// err: it says so itself (14, 15, 16), or it does not answer. After 51 it costs
// nothing to make sure.
func mayHaveMoved(err error) bool {
	code, answered := codeOf(err)
	switch code {
	case sarama.ErrOffsetsLoadInProgress, sarama.ErrConsumerCoordinatorNotAvailable,
		sarama.ErrNotCoordinatorForConsumer, sarama.ErrConcurrentTransactions:
		return true
	}
	return err != nil && !answered
}

// find asks any broker for the coordinator.
func (o *coordinator) find(ctx context.Context) (string, error) {
	return first(ctx, o.cluster.addresses(), func(ctx context.Context, addr string) (string, error) {
		var answer *sarama.FindCoordinatorResponse
		err := o.cluster.calls.call(ctx, addr, func(broker *sarama.Broker) (err error) {
			answer, err = broker.FindCoordinator(&sarama.FindCoordinatorRequest{
				Version:         2,
				CoordinatorKey:  o.transactionalID,
				CoordinatorType: sarama.CoordinatorTransaction,
			})
			if err == nil {
				err = refusal(answer.Err)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		if answer.Coordinator == nil {
			return "", sarama.ErrConsumerCoordinatorNotAvailable
		}
		return answer.Coordinator.Addr(), nil
	})
}

// initProducer takes the producer id of the transactional id, with the next
// epoch: whoever held the previous one is shut out of the coordinator from now on.
func (o *coordinator) initProducer(ctx context.Context) (identity, error) {
	var answer *sarama.InitProducerIDResponse
	err := o.call(ctx, func(broker *sarama.Broker) (err error) {
		answer, err = broker.InitProducerID(&sarama.InitProducerIDRequest{
			Version:            4,
			TransactionalID:    &o.transactionalID,
			TransactionTimeout: transactionTimeout,
			ProducerID:         -1,
			ProducerEpoch:      -1,
		})
		if err == nil {
			err = refusal(answer.Err)
		}
		return err
	})
	if err != nil {
		return identity{}, fmt.Errorf("InitProducerID for %q: %w", o.transactionalID, err)
	}
	return identity{answer.ProducerID, answer.ProducerEpoch}, nil
}

// addPartition makes the partition take part in a transaction of id. Version 2:
// from version 3 on, sarama speaks the flexible form, which brings nothing here.
func (o *coordinator) addPartition(ctx context.Context, id identity, topic string, partition int32) error {
	err := o.call(ctx, func(broker *sarama.Broker) error {
		answer, err := broker.AddPartitionsToTxn(&sarama.AddPartitionsToTxnRequest{
			Version:         2,
			TransactionalID: o.transactionalID,
			ProducerID:      id.producerID,
			ProducerEpoch:   id.epoch,
			TopicPartitions: map[string][]int32{topic: {partition}},
		})
		if err != nil {
			return err
		}
		for _, p := range answer.Errors[topic] {
			if p.Partition == partition {
				return refusal(p.Err)
			}
		}
		return sarama.ErrIncompleteResponse
	})
	if err != nil {
		return fmt.Errorf("AddPartitionsToTxn for %q: %w", o.transactionalID, err)
	}
	return nil
}

// abort ends the transaction of id, which holds nothing. Versions up to 4 leave
// the epoch as it is. The coordinator writes its marker into the partition after
// the answer.
func (o *coordinator) abort(ctx context.Context, id identity) error {
	var answer *sarama.EndTxnResponse
	err := o.call(ctx, func(broker *sarama.Broker) (err error) {
		answer, err = broker.EndTxn(&sarama.EndTxnRequest{
			Version:           2,
			TransactionalID:   o.transactionalID,
			ProducerID:        id.producerID,
			ProducerEpoch:     id.epoch,
			TransactionResult: false,
		})
		if err == nil {
			err = refusal(answer.Err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("EndTxn for %q: %w", o.transactionalID, err)
	}
	return nil
}

// plainProducer takes a producer id that belongs to no transactional id and shuts
// nobody out. Any broker gives it.
func (c *cluster) plainProducer(ctx context.Context) (identity, error) {
	answer, err := first(ctx, c.addresses(), func(ctx context.Context, addr string) (*sarama.InitProducerIDResponse, error) {
		var answer *sarama.InitProducerIDResponse
		err := c.calls.call(ctx, addr, func(broker *sarama.Broker) (err error) {
			answer, err = broker.InitProducerID(&sarama.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1})
			if err == nil {
				err = refusal(answer.Err)
			}
			return err
		})
		return answer, err
	})
	if err != nil {
		return identity{}, fmt.Errorf("InitProducerID: %w", err)
	}
	return identity{answer.ProducerID, answer.ProducerEpoch}, nil
}

package publisher

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// hedge is how long an address may keep silent before the next one is asked
	// besides.
	hedge = 300 * time.Millisecond
	// straggle is how long the others are waited for once one has answered.
	straggle = 2 * time.Second
)

// reply is what one address said.
type reply[T any] struct {
	answer T
	err    error
}

// first asks one address after the other, the next one as soon as one has failed
// or kept silent for too long, and returns the first answer. The others are given
// up. If all fail, the error is the first refusal; if there was none, it wraps
// errNoBroker and the error of each.
func first[T any](ctx context.Context, addrs []string, ask func(context.Context, string) (T, error)) (T, error) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply[T], len(addrs))
	asked, pending := 0, 0
	var faults []error
	for asked < len(addrs) || pending > 0 {
		var silent <-chan time.Time
		if asked < len(addrs) {
			addr := addrs[asked]
			asked, pending = asked+1, pending+1
			asking.Go(func() {
				answer, err := ask(ctx, addr)
				replies <- reply[T]{answer, err}
			})
			silent = time.After(hedge)
		}
		select {
		case r := <-replies:
			pending--
			if r.err == nil {
				return r.answer, nil
			}
			faults = append(faults, r.err)
		case <-silent:
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
	}
	var none T
	return none, noAnswer(faults)
}

// every asks all addresses at once and returns the answers that have come when
// all have replied, or the first answer is straggle old. If all fail, the error
// is as from first.
func every[T any](ctx context.Context, addrs []string, ask func(context.Context, string) (T, error)) ([]T, error) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply[T], len(addrs))
	for _, addr := range addrs {
		asking.Go(func() {
			answer, err := ask(ctx, addr)
			replies <- reply[T]{answer, err}
		})
	}
	var answers []T
	var late <-chan time.Time
	var faults []error
	for range addrs {
		select {
		case r := <-replies:
			if r.err != nil {
				faults = append(faults, r.err)
				continue
			}
			if answers = append(answers, r.answer); late == nil {
				late = time.After(straggle)
			}
		case <-late:
			return answers, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if len(answers) == 0 {
		return nil, noAnswer(faults)
	}
	return answers, nil
}

// noAnswer is the error of a question that nobody answered well: a refusal if there
// was one, or else what happened at each address, on one line.
func noAnswer(faults []error) error {
	joined := errNoBroker
	for _, err := range faults {
		if _, answered := codeOf(err); answered {
			return err
		}
		joined = fmt.Errorf("%w; %w", joined, err)
	}
	return joined
}

package publisher

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/IBM/sarama"
)

// party is one address of a test: what it says, and after how long.
type party struct {
	after time.Duration
	err   error
}

// asking returns an ask function for the parties that notes whom it asked when.
func asking(parties map[string]party, asked map[string]time.Duration) func(context.Context, string) (string, error) {
	begun := time.Now()
	replies := make(chan struct{}, 1) // guards asked
	return func(ctx context.Context, addr string) (string, error) {
		replies <- struct{}{}
		asked[addr] = time.Since(begun)
		<-replies
		if err := sleep(ctx, parties[addr].after); err != nil {
			return "", err
		}
		return addr, parties[addr].err
	}
}

func TestFirst(t *testing.T) {
	dead := errors.New("connection refused")
	tests := []struct {
		name    string
		parties map[string]party
		want    string
		wantErr error
		// took is how long it may take, asked who was asked and when.
		took  time.Duration
		asked map[string]time.Duration
	}{
		{
			name:    "the first answers",
			parties: map[string]party{"a": {after: 10 * time.Millisecond}},
			want:    "a", took: 10 * time.Millisecond,
			asked: map[string]time.Duration{"a": 0},
		},
		{
			name:    "dead ones come first",
			parties: map[string]party{"a": {err: dead}, "b": {err: dead}},
			want:    "c",
			asked:   map[string]time.Duration{"a": 0, "b": 0, "c": 0},
		},
		{
			name:    "a silent one comes first",
			parties: map[string]party{"a": {after: time.Hour}},
			want:    "b", took: hedge,
			asked: map[string]time.Duration{"a": 0, "b": hedge},
		},
		{
			name:    "a slow one answers while others are silent",
			parties: map[string]party{"a": {after: 2 * time.Second}, "b": {after: time.Hour}, "c": {after: time.Hour}},
			want:    "a", took: 2 * time.Second,
			asked: map[string]time.Duration{"a": 0, "b": hedge, "c": 2 * hedge},
		},
		{
			name:    "all are dead",
			parties: map[string]party{"a": {err: dead}, "b": {err: dead}, "c": {err: dead}},
			wantErr: errNoBroker,
			asked:   map[string]time.Duration{"a": 0, "b": 0, "c": 0},
		},
		{
			name:    "one refuses and the others are dead",
			parties: map[string]party{"a": {err: dead}, "b": {err: sarama.ErrTopicAuthorizationFailed}, "c": {err: dead}},
			wantErr: sarama.ErrTopicAuthorizationFailed,
			asked:   map[string]time.Duration{"a": 0, "b": 0, "c": 0},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, asked := time.Now(), make(map[string]time.Duration)
				got, err := first(t.Context(), []string{"a", "b", "c"}, asking(test.parties, asked))
				if got != test.want || !errors.Is(err, test.wantErr) {
					t.Errorf("got %q and error %v, want %q and %v", got, err, test.want, test.wantErr)
				}
				if took := time.Since(begun); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if len(asked) != len(test.asked) {
					t.Errorf("asked %v, want %v", asked, test.asked)
				}
				for addr, want := range test.asked {
					if asked[addr] != want {
						t.Errorf("asked %s after %v, want %v", addr, asked[addr], want)
					}
				}
			})
		})
	}
}

func TestFirstEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		silent := map[string]party{"a": {after: time.Hour}, "b": {after: time.Hour}}
		_, err := first(ctx, []string{"a", "b"}, asking(silent, make(map[string]time.Duration)))
		if !errors.Is(err, enough) {
			t.Errorf("got %v, want %v", err, enough)
		}
	})
}

func TestEvery(t *testing.T) {
	dead := errors.New("connection refused")
	tests := []struct {
		name    string
		parties map[string]party
		want    []string
		wantErr error
		took    time.Duration
	}{
		{
			name:    "all answer",
			parties: map[string]party{"c": {after: time.Second}},
			want:    []string{"a", "b", "c"}, took: time.Second,
		},
		{
			name:    "one is dead",
			parties: map[string]party{"b": {err: dead}},
			want:    []string{"a", "c"},
		},
		{
			name:    "one is silent",
			parties: map[string]party{"a": {after: time.Hour}},
			want:    []string{"b", "c"}, took: straggle,
		},
		{
			name:    "all are dead",
			parties: map[string]party{"a": {err: dead}, "b": {err: dead}, "c": {err: dead}},
			wantErr: errNoBroker,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				got, err := every(t.Context(), []string{"a", "b", "c"}, asking(test.parties, make(map[string]time.Duration)))
				slices.Sort(got)
				if !slices.Equal(got, test.want) || !errors.Is(err, test.wantErr) {
					t.Errorf("got %q and error %v, want %q and %v", got, err, test.want, test.wantErr)
				}
				if took := time.Since(begun); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff{50 * time.Millisecond, time.Second}
		for _, most := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
			most *= time.Millisecond
			begun := time.Now()
			if err := b.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took < most/2 || took > most {
				t.Errorf("waited %v, want between %v and %v", took, most/2, most)
			}
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(enough)
		if err := b.wait(ctx); !errors.Is(err, enough) {
			t.Errorf("got %v, want %v", err, enough)
		}
	})
}

package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/IBM/sarama"
)

func TestClassifyAnswers(t *testing.T) {
	operator := []sarama.KError{3, 17, 29, 31, 32, 33, 34, 35, 43, 44, 53, 54, 58, 76}
	poison := []sarama.KError{10, 18, 87}
	state := []sarama.KError{45, 46, 47, 59, 90}
	for code := sarama.KError(-1); code <= 140; code++ {
		want := classTransient
		switch {
		case slices.Contains(operator, code):
			want = classOperator
		case slices.Contains(poison, code):
			want = classPoison
		case slices.Contains(state, code):
			want = classState
		}
		if code == sarama.ErrNoError {
			continue
		}
		got := classify(fmt.Errorf("produce: %w", code))
		if got.class != want {
			t.Errorf("code %d is of class %s, want %s", code, got.class, want)
		}
		if got.reason == "" {
			t.Errorf("code %d has no reason", code)
		}
		if needs := want == classOperator || want == classPoison; needs && got.remedy == "" {
			t.Errorf("code %d of class %s has the remedy %q", code, want, got.remedy)
		}
	}
}

func TestClassifyErrors(t *testing.T) {
	remote := &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}
	tests := []struct {
		name string
		err  error
		want class
	}{
		{"connection closed", io.EOF, classTransient},
		{"connection reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, classTransient},
		{"no answer in time", os.ErrDeadlineExceeded, classTransient},
		{"given up", context.Canceled, classTransient},
		{"nobody answers", errNoBroker, classTransient},
		{"an answer that lacks something", sarama.ErrIncompleteResponse, classTransient},
		{"something new", errors.New("something new"), classTransient},
		{"certificate refused by the broker", fmt.Errorf("broker: %w", remote), classOperator},
		{"certificate of the broker refused", &tlsError{errors.New("x509: unknown authority")}, classOperator},
		{"handshake cut off", &tlsError{io.EOF}, classTransient},
		{"file that does not fit", &tlsFileError{"--tls-cert", errors.New("mismatch")}, classOperator},
		{"another cluster", fmt.Errorf("%w; %w", errNoBroker, &foreignClusterError{}), classOperator},
		{"record that cannot be encoded", sarama.PacketEncodingError{Info: "too long"}, classPoison},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := classify(test.err).class; got != test.want {
				t.Errorf("got class %s, want %s", got, test.want)
			}
			if !inDoubt(test.err) {
				t.Error("an attempt without an answer is not in doubt")
			}
		})
	}
}

func TestInDoubt(t *testing.T) {
	refused := []sarama.KError{2, 10, 19, 29, 32, 43, 44, 45, 46, 47, 59, 76, 87}
	for code := sarama.KError(-1); code <= 140; code++ {
		if got, want := inDoubt(fmt.Errorf("produce: %w", code)), !slices.Contains(refused, code); got != want {
			t.Errorf("code %d: in doubt %t, want %t", code, got, want)
		}
	}
}

func TestRemedyNamesTheTopic(t *testing.T) {
	got := classify(sarama.ErrUnknownTopicOrPartition).remedyFor("orders")
	if want := `create topic "orders", or run with --create-topics`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCodeTextHasTheNumber(t *testing.T) {
	for _, code := range []sarama.KError{3, 90, codeUnknownTopicID, codeNewLeaderElected, 133} {
		got := codeText(code)
		if !strings.HasSuffix(got, fmt.Sprintf("(%d)", code)) || strings.Contains(got, "how did this happen") {
			t.Errorf("code %d is called %q", code, got)
		}
	}
}

//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Main runs a package's tests and closes the shared servers:
//
//	func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
//
// Without it they end a moment after the test process.
func Main(m *testing.M) int {
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return max(code, 1)
	}
	return code
}

// shared is what the tests of this process have in common.
var shared struct {
	sync.Mutex
	postgres *Postgres
	kafka    map[int]*Kafka // by number of brokers
}

func closeShared() error {
	shared.Lock()
	defer shared.Unlock()
	var err error
	if shared.postgres != nil {
		err = shared.postgres.Close()
	}
	for _, k := range shared.kafka {
		err = errors.Join(err, k.Close())
	}
	shared.postgres, shared.kafka = nil, nil
	return err
}

// SharedPostgres returns the server that the tests of this process share. A
// test must not stop it or change its settings.
func SharedPostgres(t testing.TB) *Postgres {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.postgres == nil {
		p, err := StartPostgres(t.Context(), PostgresConfig{})
		if err != nil {
			t.Fatal(err)
		}
		shared.postgres = p
	}
	return shared.postgres
}

// NewPostgres starts a server for one test.
func NewPostgres(t testing.TB, config PostgresConfig) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of PostgreSQL's log:\n%s", tail(p.LogPath(), 40))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// SharedKafka returns the cluster of 1 or 3 brokers that the tests of this
// process share. Topics are not created by themselves in it. A test must not
// stop a broker; with three it may move leaders of its own topics.
func SharedKafka(t testing.TB, brokers int) *Kafka {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.kafka[brokers] == nil {
		k, err := StartKafka(t.Context(), KafkaConfig{Brokers: brokers})
		if err != nil {
			t.Fatal(err)
		}
		if shared.kafka == nil {
			shared.kafka = make(map[int]*Kafka)
		}
		shared.kafka[brokers] = k
	}
	return shared.kafka[brokers]
}

// NewKafka starts a cluster for one test.
func NewKafka(t testing.TB, config KafkaConfig) *Kafka {
	t.Helper()
	k, err := StartKafka(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, b := range k.brokers {
				t.Logf("the end of the log of broker %d:\n%s", b.index, tail(b.LogPath(), 40))
			}
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// NewTopic creates a topic with a name of its own on a cluster.
func NewTopic(t testing.TB, k *Kafka, config TopicConfig) string {
	t.Helper()
	name := Name(t)
	if err := k.CreateTopic(t.Context(), name, config); err != nil {
		t.Fatal(err)
	}
	return name
}

// NewDatabase creates a database with a name of its own. When the test ends it
// is dropped, with its slots.
func NewDatabase(t testing.TB, p *Postgres) string {
	t.Helper()
	name := Name(t)
	if err := p.Exec(t.Context(), superuser, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.Running() {
			return
		}
		if err := p.DropDatabase(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// NewProxy puts a proxy in front of a server for one test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := StartProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Binary builds the binary, if this process has not done so, and returns its
// path.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := BuildBinary(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// NewRelay starts the binary as a process for one test; when that fails, it
// shows what the process has written to standard error.
func NewRelay(t testing.TB, env []string, args ...string) *Relay {
	t.Helper()
	r, err := StartRelay(t.Context(), env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of standard error of outbox-cdc %s:\n%s", strings.Join(args, " "), tail(r.command.Stderr, 60))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Tool returns the path of a program that a test needs, such as a shell, and
// installs the package of the same name where it is missing. The program must
// know --version.
func Tool(t testing.TB, program string) string {
	t.Helper()
	packages := make(map[string][]string)
	for _, client := range packageClients {
		packages[client.program] = []string{program}
	}
	path, err := find(t.Context(), nil, need{program: program, packages: packages, harmless: "--version"})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Result is what a command that has ended left.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// RunRelay runs the binary to its end, which must come within a minute.
func RunRelay(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	r := NewRelay(t, env, args...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code, err := r.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return Result{Code: code, Stdout: r.Stdout(), Stderr: r.Stderr()}
}

var (
	namesGiven  atomic.Uint32
	notForNames = regexp.MustCompile(`[^a-z0-9]+`)
)

// Name returns a name that no other test of this process has, lower case and
// short enough for a database, a slot, a role, a topic or a consumer group.
func Name(t testing.TB) string {
	test := notForNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "_")
	return fmt.Sprintf("t%d_%s", namesGiven.Add(1), test[:min(len(test), 32)])
}

// Eventually waits until condition returns nil, and fails the test with its
// last error when that takes longer than timeout.
func Eventually(t testing.TB, timeout time.Duration, condition func() error) {
	t.Helper()
	err := poll(t.Context(), timeout, 20*time.Millisecond, func(context.Context) error { return condition() })
	if err != nil {
		t.Fatal(err)
	}
}

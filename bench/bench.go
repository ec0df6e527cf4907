//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// bench measures cases one after the other.
type bench struct {
	options
	progress io.Writer
	begun    time.Time
	jvm      []string // options of the broker's
	servers  *servers // nil until a case needs them
}

// servers are what is measured on.
type servers struct {
	postgres *harness.Postgres
	kafka    *harness.Kafka
	client   *kgo.Client
}

func newBench(o options, progress io.Writer) (*bench, error) {
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return nil, err
		}
		// deploy/build.sh adds it to its own.
		if err := os.Setenv("TAGS", "profile"); err != nil {
			return nil, err
		}
	}
	return &bench{options: o, progress: &turns{out: progress}, begun: time.Now(), jvm: brokerJVM()}, nil
}

// turns lets one goroutine write at a time: servers are started together.
type turns struct {
	mu  sync.Mutex
	out io.Writer
}

// Write writes as a whole.
func (t *turns) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Write(b)
}

// say shows a line of progress, with the time since the beginning.
func (b *bench) say(format string, args ...any) {
	took := time.Since(b.begun).Round(time.Second)
	fmt.Fprintf(b.progress, "%02d:%02d  %s\n", int(took.Minutes()), int(took.Seconds())%60, fmt.Sprintf(format, args...))
}

// caseLimit is how long a case may take, its load included; longLimit is for
// those of -full.
const (
	caseLimit = 15 * time.Minute
	longLimit = time.Hour
)

// run measures cases until ctx ends.
func (b *bench) run(ctx context.Context, chosen []scenario) (*report, error) {
	r := newReport(b.options)
	for i, s := range chosen {
		if ctx.Err() != nil {
			break
		}
		b.say("case %d of %d, %s: %s", i+1, len(chosen), s.name, s.title)
		begun := time.Now()
		c, err := b.measure(ctx, s, b.rounds(s))
		if err != nil && ctx.Err() != nil {
			break // it was not the case that failed
		}
		if err != nil {
			c.Error = err.Error()
			b.say("FAILED: %v", err)
			if err := b.repair(ctx); err != nil {
				return r, err
			}
		}
		c.Seconds = time.Since(begun).Round(time.Second).Seconds()
		r.Cases = append(r.Cases, c)
		if b.servers != nil && r.PostgreSQL == "" {
			if r.PostgreSQL, err = b.servers.version(ctx); err != nil {
				return r, err
			}
		}
	}
	r.Seconds = time.Since(b.begun).Round(time.Second).Seconds()
	return r, nil
}

// rounds is how often each contender of a case is measured.
func (b *bench) rounds(s scenario) int {
	if s.once {
		return 1
	}
	return b.repeat
}

// measure measures one case.
func (b *bench) measure(ctx context.Context, s scenario, rounds int) (caseReport, error) {
	c := newCaseReport(s)
	limit := caseLimit
	if s.full {
		limit = longLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the case takes longer than %s", limit))
	defer cancel()
	if err := b.open(ctx); err != nil {
		return c, err
	}
	p, err := newPlace(ctx, b, s, rounds, &c)
	if err == nil {
		err = s.run(p, ctx)
	}
	return c, errors.Join(err, p.close(ctx))
}

// open starts the servers, if there are none, and warms them up.
func (b *bench) open(ctx context.Context) error {
	if b.servers != nil {
		return nil
	}
	b.servers = &servers{}
	b.say("starting both servers and building outbox-cdc")
	all, starting := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		b.servers.postgres, err = harness.StartPostgres(starting, harness.PostgresConfig{
			Settings: map[string]string{"autovacuum": "off", "max_wal_size": "64GB", "checkpoint_timeout": "1d", "shared_buffers": "256MB"},
			Progress: b.progress,
		})
		return err
	})
	all.Go(func() (err error) {
		b.servers.kafka, err = harness.StartKafka(starting, harness.KafkaConfig{
			Properties: map[string]string{
				"log.segment.delete.delay.ms": "1000",
				// Kafka's own: a broker that is busy is not to be missed.
				"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000",
			},
			JVM: b.jvm, Progress: b.progress,
		})
		return err
	})
	all.Go(func() error {
		_, err := harness.BuildBinary(starting, b.progress)
		return err
	})
	if err := all.Wait(); err != nil {
		return err
	}
	var err error
	if b.servers.client, err = kgo.NewClient(kgo.SeedBrokers(b.servers.kafka.Addrs()...)); err != nil {
		return err
	}
	return b.warmUp(ctx)
}

// brokerJVM are the options that Kafka's own start script gives a broker.
func brokerJVM() []string {
	return []string{"-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"}
}

// repair ends servers that a case has left unusable: the next one starts others.
func (b *bench) repair(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s := b.servers; s != nil && s.client != nil {
		_, err := s.version(ctx)
		if err == nil {
			err = s.client.Ping(ctx)
		}
		if err == nil {
			return nil
		}
		b.say("the servers are started anew: %v", err)
	}
	return b.close()
}

// close ends the servers.
func (b *bench) close() error {
	s := b.servers
	b.servers = nil
	if s == nil {
		return nil
	}
	var err error
	if s.client != nil {
		s.client.Close()
	}
	if s.kafka != nil {
		err = s.kafka.Close()
	}
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Close())
	}
	return err
}

// version is that of PostgreSQL, such as 15.18.
func (s *servers) version(ctx context.Context) (string, error) {
	return harness.QueryValue[string](ctx, s.postgres, "postgres", "SELECT split_part(current_setting('server_version'), ' ', 1)")
}

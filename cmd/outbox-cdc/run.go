package main

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/publisher"
)

func (p *program) runCommand() *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "stream the outbox and publish it",
		Description: "Publishes every row that is committed to the outbox table, in commit order, until SIGTERM or SIGINT. " +
			"A second process on the same slot waits and takes over. It creates nothing: see init.",
		UsageText: "outbox-cdc run --dsn postgres://relay@db/shop --brokers kafka-1:9092,kafka-2:9092",
		Flags: flags("dsn", "slot", "publication", "table", "status-interval", "silence-timeout", "no-wait",
			"brokers", "kafka-version", "compression", "fence",
			"tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-insecure-skip-verify",
			"sasl-mechanism", "sasl-user", "sasl-password",
			"topic", "topic-map", "key", "partition-by", "include-types", "exclude-types",
			"headers", "header", "static-header", "envelope", "timestamp", "position-headers", "on-poison", "on-unknown-topic", "max-in-flight-bytes",
			"create-topics", "create-topics-partitions", "create-topics-replication",
			"start-timeout", "shutdown-timeout", "http", "log-level", "log-format"),
		Action: p.run,
	}
}

// run wires the parts together and hands over to the session loop.
func (p *program) run(c *cli.Context) error {
	s := settings{c: c}
	cfg, err := s.forRun(p)
	if err != nil {
		return err
	}
	log, source, destination := cfg.log, cfg.source, cfg.destination
	p.verbose = log.Enabled(c.Context, slog.LevelDebug)
	warnConfiguration(c, func(line string) { log.Warn(line) })
	limitMemory(destination.MaxInFlightBytes)

	registry := newRegistry()
	pub, err := publisher.New(destination, publisher.NewMetrics(registry), log)
	if err != nil {
		return err
	}
	defer pub.Close()
	m := newMonitor(source.Slot, pub, cfg.shutdownTimeout)
	defer context.AfterFunc(c.Context, m.health.stopping)()
	registerProcessMetrics(registry, m)
	stopHTTP, err := serveHTTP(cfg.address, routes(m, registry), log)
	if err != nil {
		return err
	}
	defer stopHTTP()
	defer p.beside(m.watchdog.run)()
	defer p.beside((&summary{log: log, interval: summaryInterval, health: m.health, progress: pub.Progress}).run)()
	r := &relay{
		log: log, health: m.health, source: source, publisher: pub, pool: decoder.NewPool(),
		hard: p.stop.hard, crash: p.crash, shutdownTimeout: cfg.shutdownTimeout,
	}
	if destination.OnPoison == publisher.PolicyDeadLetter {
		r.letters = publisher.NewDeadLetters(source.Connect, supportOf(source.Tables).Schema, source.Slot)
		defer r.letters.Close()
	}
	log.Info("started", "version", buildVersion(), "slot", source.Slot, "publication", source.Publication, "tables", r.tables())
	sessions := loop{log: log, health: m.health, startTimeout: cfg.startTimeout, session: r.session}
	if err := sessions.run(c.Context); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// beside runs f until the returned function is called, which waits for it.
func (p *program) beside(f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer p.crash()
		f(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Memory beside the events in flight: connections, buffers, the program itself.
const memoryBase = 24 << 20

// limitMemory has the garbage collector keep the process small: a heap that may
// double before it is looked at would double the budget too. The environment
// goes first.
func limitMemory(budget int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if budget > math.MaxInt64/2 {
		return
	}
	debug.SetMemoryLimit(memoryBase + budget + budget/8)
}

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
	"github.com/outbox-cdc/outbox-cdc/units"
)

// prepare is what every command begins with.
func prepare(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	resolve(c)
	return nil
}

// settings reads the options of one command and keeps every fault it finds, so
// that all of them are reported in one message.
type settings struct {
	c      *cli.Context
	faults []error
	tables []outboxTable // once they were asked for
}

func (s *settings) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

// err returns the faults found so far and more, as one error.
func (s *settings) err(more ...error) error {
	r := resolved(s.c)
	all := slices.Concat(r.faults, s.faults, more)
	if err := r.placed(errors.Join(all...)); err != nil {
		return usageError{err}
	}
	return nil
}

// duration reads a duration; empty is 0.
func (s *settings) duration(name string) time.Duration {
	value := s.c.String(name)
	if value == "" {
		return 0
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		s.fault("--%s must be a duration such as 30s, got %q", name, value)
	case d <= 0:
		s.fault("--%s must be positive, got %s", name, value)
	}
	return d
}

// positive reads a duration that must be given.
func (s *settings) positive(name string) time.Duration {
	if s.c.String(name) == "" {
		s.fault("--%s must be a duration such as 30s, got nothing", name)
	}
	return s.duration(name)
}

// on reads a switch.
func (s *settings) on(name string) bool {
	value := s.c.String(name)
	on, err := strconv.ParseBool(value)
	if err != nil {
		s.fault("--%s must be true or false, got %q", name, value)
	}
	return on
}

func (s *settings) size(name string) int64 {
	n, err := units.ParseBytes(s.c.String(name))
	if err != nil {
		s.fault("--%s %w", name, err)
		return math.MaxInt64 // no other fault follows
	}
	return n
}

// number reads a whole number of at most the given size.
func (s *settings) number(name string, most int64) int64 {
	value := s.c.String(name)
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > most {
		s.fault("--%s must be a number from 0 to %d, got %q", name, most, value)
		return 0
	}
	return n
}

func (s *settings) logger(p *program) *slog.Logger {
	log, err := newLogger(p.err, s.c.String("log-level"), s.c.String("log-format"))
	if err != nil {
		s.faults = append(s.faults, err)
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// list reads values separated by commas.
func (s *settings) list(name string) []string {
	var values []string
	for value := range strings.SplitSeq(s.c.String(name), ",") {
		if value = strings.TrimSpace(value); value != "" {
			values = append(values, value)
		}
	}
	return values
}

// items reads values separated by commas that may hold some themselves.
func (s *settings) items(name string) []string { return splitItems(s.c.String(name)) }

// splitItems cuts text at the commas. A comma in a value is written with a
// backslash in front of it, and a backslash there is doubled.
func splitItems(text string) []string {
	if text == "" {
		return nil
	}
	var items []string
	var item strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
			item.WriteByte(text[i])
		case text[i] == ',':
			items = append(items, strings.TrimSpace(item.String()))
			item.Reset()
		default:
			item.WriteByte(text[i])
		}
	}
	return append(items, strings.TrimSpace(item.String()))
}

// output checks -o.
func (s *settings) output() {
	o := findOption(resolved(s.c).options, "o")
	if !slices.Contains(o.choices, o.value) {
		s.fault("-o must be %s, got %q", strings.Join(o.choices, " or "), o.value)
	}
}

// value returns an option, or what stands for it in a command without it.
func (s *settings) value(name, standard string) string {
	if o := findOption(resolved(s.c).options, name); o != nil {
		return o.value
	}
	return standard
}

// database reads what the commands need that only talk to PostgreSQL.
func (s *settings) database() replication.Config {
	cfg := replication.Config{
		DSN:           s.c.String("dsn"),
		Password:      s.value("password", ""),
		Slot:          s.value("slot", defaultSlot),
		Publication:   s.value("publication", defaultPublication),
		MessagePrefix: s.value("message-prefix", ""),
		Places:        make(map[string]replication.Place),
	}
	for _, t := range s.outboxes() {
		cfg.Tables = append(cfg.Tables, t.Table)
		cfg.Places[t.Table.String()] = t.place
	}
	return cfg
}

// source reads what run needs to know about PostgreSQL.
func (s *settings) source() replication.Config {
	cfg := s.database()
	cfg.StatusInterval = s.duration("status-interval")
	cfg.SilenceTimeout = s.positive("silence-timeout")
	cfg.NoWait = s.on("no-wait")
	return cfg
}

// destination reads what run needs to know about Kafka.
func (s *settings) destination() publisher.Config {
	return publisher.Config{
		Brokers:      s.list("brokers"),
		KafkaVersion: s.c.String("kafka-version"),
		Security: publisher.Security{
			TLS: publisher.TLS{
				Enabled:            s.on("tls"),
				CAFile:             s.c.String("tls-ca"),
				CertFile:           s.c.String("tls-cert"),
				KeyFile:            s.c.String("tls-key"),
				ServerName:         s.c.String("tls-server-name"),
				InsecureSkipVerify: s.on("tls-insecure-skip-verify"),
			},
			SASL: publisher.SASL{
				Mechanism: s.c.String("sasl-mechanism"),
				User:      s.c.String("sasl-user"),
				Password:  s.c.String("sasl-password"),
			},
		},
		Routing: publisher.Routing{
			Topic:        s.c.String("topic"),
			TopicMap:     s.items("topic-map"),
			Key:          publisher.Key(s.c.String("key")),
			PartitionBy:  publisher.PartitionBy(s.c.String("partition-by")),
			IncludeTypes: s.items("include-types"),
			ExcludeTypes: s.items("exclude-types"),
			Tables:       s.tableRouting(),
		},
		Form: publisher.Form{
			Headers:       publisher.Profile(s.c.String("headers")),
			HeaderColumns: s.items("header"),
			StaticHeaders: s.items("static-header"),
			Envelope:      s.on("envelope"),
			Timestamp:     publisher.Timestamp(s.c.String("timestamp")),
		},
		PositionHeaders: s.on("position-headers"),
		Compression:     s.c.String("compression"),
		CreateTopics: publisher.CreateTopics{
			Enabled:     s.on("create-topics"),
			Partitions:  int32(s.number("create-topics-partitions", math.MaxInt32)),
			Replication: int16(s.number("create-topics-replication", math.MaxInt16)),
		},
		OnPoison:         publisher.Policy(s.c.String("on-poison")),
		OnUnknownTopic:   publisher.UnknownTopic(s.c.String("on-unknown-topic")),
		Fence:            publisher.Fence(s.c.String("fence")),
		MaxInFlightBytes: s.size("max-in-flight-bytes"),
	}
}

// runConfig is what run is told.
type runConfig struct {
	source                        replication.Config
	destination                   publisher.Config
	startTimeout, shutdownTimeout time.Duration
	address                       string // to serve HTTP on; empty is none
	log                           *slog.Logger
}

// forRun reads all that run is told. The error joins every fault of it that can
// be found without connecting to anything.
func (s *settings) forRun(p *program) (runConfig, error) {
	cfg := runConfig{log: s.logger(p)}
	cfg.source, cfg.destination = s.source(), s.destination()
	cfg.startTimeout, cfg.shutdownTimeout = s.positive("start-timeout"), s.positive("shutdown-timeout")
	cfg.address = s.listenAddress("http")
	cfg.source.Log = cfg.log
	cfg.destination.StartTimeout = max(cfg.startTimeout, 1) // a fault of it is known already
	for i := range cfg.source.Tables {
		cfg.source.Tables[i].Needed = cfg.destination.Needed(cfg.source.Tables[i])
	}
	s.contradictions(cfg)
	return cfg, s.err(cfg.source.Validate(), cfg.destination.Validate(), cfg.destination.Security.TLS.CheckFiles())
}

package publisher

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/units"
)

// Config says where and how events are published.
type Config struct {
	// Brokers are the addresses, host:port, from which the cluster is found.
	Brokers      []string
	Security     Security
	KafkaVersion string // protocol ceiling, such as "2.8.0"

	Routing
	Form
	// PositionHeaders adds position and origin to each record. Without them a
	// restart cannot recognise what a partition already holds.
	PositionHeaders bool
	Compression     string // none, gzip, snappy, lz4 or zstd

	OnPoison       Policy
	OnUnknownTopic UnknownTopic
	CreateTopics   CreateTopics
	Fence          Fence
	// MaxInFlightBytes bounds the memory of events received and not yet
	// acknowledged. One event larger than that is still admitted, alone.
	MaxInFlightBytes int64
	// StartTimeout is how long a missing coordinator is waited for before a
	// partition whose leader answers is taken without one.
	StartTimeout time.Duration
}

// Policy is what happens to an event that can never be published.
type Policy string

// The policies for poison events.
const (
	PolicyDeadLetter Policy = "dead-letter"
	PolicyHalt       Policy = "halt"
)

// UnknownTopic is what happens to events whose topic does not exist.
type UnknownTopic string

// The reactions to an unknown topic.
const (
	UnknownTopicWait       UnknownTopic = "wait"
	UnknownTopicDeadLetter UnknownTopic = "dead-letter"
)

// Fence is how much certainty about other writers is asked of the brokers.
type Fence string

// The fences. FenceAuto takes what the rights allow and says so, FenceRequire
// stops without them, FenceOff never asks.
const (
	FenceAuto    Fence = "auto"
	FenceRequire Fence = "require"
	FenceOff     Fence = "off"
)

// codecs are the compressions by name.
func codecs() map[string]sarama.CompressionCodec {
	return map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
}

// Validate reports every fault of the configuration, each by its flag.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if len(c.Brokers) == 0 {
		fault("--brokers is required: the addresses of Kafka brokers, host:port[,host:port...]")
	}
	for _, addr := range c.Brokers {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || !isPort(port) {
			fault("--brokers must be host:port[,host:port...], got %q", addr)
		}
	}
	if _, err := parseKafkaVersion(c.KafkaVersion); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.Routing.read(); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.Form.read(); err != nil {
		faults = append(faults, err)
	}
	if _, ok := codecs()[c.Compression]; !ok {
		fault("--compression must be none, gzip, snappy, lz4 or zstd, got %q", c.Compression)
	}
	oneOf(fault, "--on-poison", c.OnPoison, PolicyDeadLetter, PolicyHalt)
	oneOf(fault, "--on-unknown-topic", c.OnUnknownTopic, UnknownTopicWait, UnknownTopicDeadLetter)
	oneOf(fault, "--fence", c.Fence, FenceAuto, FenceRequire, FenceOff)
	if c.MaxInFlightBytes < minInFlightBytes {
		fault("--max-in-flight-bytes must be at least %s, got %s", units.Bytes(minInFlightBytes), units.Bytes(c.MaxInFlightBytes))
	}
	if c.StartTimeout <= 0 {
		fault("--start-timeout must be positive, got %s", units.Duration(c.StartTimeout))
	}
	faults = append(faults, c.CreateTopics.validate()...)
	return errors.Join(append(faults, c.Security.Validate())...)
}

// Needed returns the columns that a table has to have beside the fields of an
// event. The configuration must be valid.
func (c Config) Needed(t decoder.Table) []decoder.Needed {
	r, err := c.Routing.read()
	f, err2 := c.Form.read()
	if err != nil || err2 != nil {
		return nil
	}
	return append(r.of(t).needed(), f.needed(t.Mapping)...)
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// minInFlightBytes leaves room for a full batch and the next one.
const minInFlightBytes = 1 << 20

func oneOf[T ~string](fault func(string, ...any), flag string, got T, allowed ...T) {
	if slices.Contains(allowed, got) {
		return
	}
	var names []string
	for _, a := range allowed {
		names = append(names, string(a))
	}
	fault("%s must be one of %s, got %q", flag, strings.Join(names, ", "), string(got))
}

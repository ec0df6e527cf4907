package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// The groups of flags in the help.
const (
	groupCommand  = "This command"
	groupPostgres = "PostgreSQL"
	groupKafka    = "Kafka"
	groupEvents   = "Events"
	groupProcess  = "Process"
)

// Defaults that more than one place needs.
const (
	defaultSlot            = "outbox_cdc"
	defaultPublication     = "outbox_cdc"
	defaultTable           = "public.outbox_events"
	defaultStartTimeout    = 30 * time.Second
	defaultShutdownTimeout = 25 * time.Second
)

// definitions are all flags, each defined once for all commands that have it.
// Values are texts, so that all faults of a configuration can be reported at
// once, whether they come from an argument or the environment.
func definitions() []cli.Flag {
	return slices.Concat(postgresFlags(), kafkaFlags(), eventFlags(), processFlags(), commandFlags())
}

func postgresFlags() []cli.Flag {
	return []cli.Flag{
		text(groupPostgres, "dsn", "", "connection URL or keyword string; without it libpq's PG* variables count"),
		text(groupPostgres, "slot", defaultSlot, "replication slot"),
		text(groupPostgres, "publication", defaultPublication, "publication"),
		text(groupPostgres, "table", defaultTable, "outbox table; parts in double quotes keep their case"),
		text(groupPostgres, "status-interval", "", "longest time between two reports to the server (default: a third of its wal_sender_timeout, at most 10s)"),
		text(groupPostgres, "silence-timeout", "30s", "a session in which the server says nothing for so long is ended"),
		yes(groupPostgres, "no-wait", false, "end with exit code 7 if another process holds the slot"),
	}
}

func kafkaFlags() []cli.Flag {
	return []cli.Flag{
		text(groupKafka, "brokers", "", "addresses, host:port[,host:port...], from which the cluster is found"),
		text(groupKafka, "kafka-version", "2.8.0", "protocol level to speak at most"),
		text(groupKafka, "compression", "none", "none, gzip, snappy, lz4 or zstd"),
		text(groupKafka, "fence", "auto", "shutting out other writers: auto, require or off"),
		yes(groupKafka, "tls", false, "speak TLS to the brokers"),
		text(groupKafka, "tls-ca", "", "PEM file of the certificates to trust (default: the system's)"),
		text(groupKafka, "tls-cert", "", "PEM file of the client's certificate"),
		text(groupKafka, "tls-key", "", "PEM file of the client's key"),
		text(groupKafka, "tls-server-name", "", "name expected in the brokers' certificates instead of the host's"),
		yes(groupKafka, "tls-insecure-skip-verify", false, "accept any certificate of the brokers"),
		text(groupKafka, "sasl-mechanism", "", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
		text(groupKafka, "sasl-user", "", "user of the login"),
		text(groupKafka, "sasl-password", "", "its password; better in the environment, arguments can be seen by others"),
	}
}

func eventFlags() []cli.Flag {
	return []cli.Flag{
		text(groupEvents, "topic", "outbox.event.{aggregate_type}", "topic; may name {aggregate_type}, {aggregate_id} and {event_type}"),
		text(groupEvents, "key", "event_id", "key of a record: event_id or aggregate_id"),
		text(groupEvents, "partition-by", "aggregate_id", "what chooses the partition: aggregate_id, key or none"),
		yes(groupEvents, "position-headers", true, "headers by which a restart recognises what a partition holds"),
		text(groupEvents, "on-poison", "dead-letter", "events that can never be published: dead-letter or halt"),
		text(groupEvents, "on-unknown-topic", "wait", "events whose topic does not exist: wait or dead-letter"),
		text(groupEvents, "max-in-flight-bytes", "32MiB", "memory for events received and not yet acknowledged"),
	}
}

func processFlags() []cli.Flag {
	return []cli.Flag{
		text(groupProcess, "start-timeout", defaultStartTimeout.String(), "how long faults are retried before the first session is up"),
		text(groupProcess, "shutdown-timeout", defaultShutdownTimeout.String(), "how long SIGTERM waits for acknowledgements"),
		text(groupProcess, "http", "", "address, [host]:port, to serve /metrics on; without a host on loopback alone (default: none)"),
		text(groupProcess, "log-level", "info", "debug, info, warn or error"),
		text(groupProcess, "log-format", "auto", "text, json, or auto: text on a terminal and JSON otherwise"),
	}
}

func commandFlags() []cli.Flag {
	return []cli.Flag{
		plain("o", "text", "output: text or json"),
		bare("yes", "do not ask"),
		bare("force", "end the process that holds the slot first, and do without our record"),
		plain("timeout", "", "give up after this time (default: wait)"),
		plain("to", "", "LSN to move the slot to, or now for the end of the write-ahead log"),
		bare("print-sql", "print the SQL and change nothing"),
		bare("full", "create the table with the columns of the polling pattern too"),
		plain("role", "", "role to grant the rights to that run needs"),
		bare("failover", "have standbys keep a copy of the slot (PostgreSQL 17 and later)"),
	}
}

// text defines a flag with a value and an environment variable.
func text(group, name, value, use string) cli.Flag {
	return &cli.StringFlag{Category: group, Name: name, Value: value, Usage: use, EnvVars: []string{environment(name)}}
}

// yes defines a switch with an environment variable.
func yes(group, name string, on bool, use string) cli.Flag {
	value := switchText(strconv.FormatBool(on))
	return &cli.GenericFlag{Category: group, Name: name, Value: &value, Usage: use, EnvVars: []string{environment(name)}}
}

// switchText is the value of a switch as it was given. The library's own
// switches end the parsing at a value that is none.
type switchText string

// Set takes any text.
func (s *switchText) Set(text string) error {
	*s = switchText(text)
	return nil
}

// String returns the text.
func (s *switchText) String() string { return string(*s) }

// IsBoolFlag has the name alone mean true.
func (*switchText) IsBoolFlag() bool { return true }

// plain defines a flag of one command: it says what to do this time, so the
// environment has no say in it.
func plain(name, value, use string) cli.Flag {
	return &cli.StringFlag{Category: groupCommand, Name: name, Value: value, Usage: use}
}

// bare defines a switch of one command.
func bare(name, use string) cli.Flag {
	return &cli.BoolFlag{Category: groupCommand, Name: name, Usage: use}
}

// environment returns the variable that stands for a flag.
func environment(flag string) string {
	return "OUTBOX_CDC_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// flags returns the flags with the given names, in that order.
func flags(names ...string) []cli.Flag {
	all := definitions()
	var chosen []cli.Flag
	for _, name := range names {
		i := slices.IndexFunc(all, func(f cli.Flag) bool { return f.Names()[0] == name })
		if i < 0 {
			panic(fmt.Sprintf("flag --%s is not defined", name))
		}
		chosen = append(chosen, all[i])
	}
	return chosen
}

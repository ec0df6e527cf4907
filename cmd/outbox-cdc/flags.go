package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outbox-cdc/outbox-cdc/decoder"
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

const (
	environmentPrefix = "OUTBOX_CDC_"
	// optionConfig names the configuration file.
	optionConfig = "config"
	// fileSuffix behind the name of a secret makes the option that names a
	// file with it.
	fileSuffix = "-file"
)

// definitions are all options, each defined once for all commands that have it.
func definitions() []*option {
	return slices.Concat(postgresOptions(), kafkaOptions(), eventOptions(), processOptions(), commandOptions())
}

func postgresOptions() []*option {
	const g = groupPostgres
	return []*option{
		define(g, kindDSN, "dsn", "", "connection URL or keyword string; without it libpq's PG* variables count"),
		define(g, kindPath, "dsn-file", "", "file that holds the connection string"),
		define(g, kindSecret, "password", "", "goes before the one in --dsn and PGPASSWORD; others can see arguments, so better in a file"),
		define(g, kindPath, "password-file", "", "file that holds the password"),
		define(g, kindText, "slot", defaultSlot, "replication slot"),
		define(g, kindText, "publication", defaultPublication, "publication"),
		define(g, kindList, "table", defaultTable, "outbox table, or several of one shape; parts in double quotes keep their case; the default is that of --preset"),
		choice(g, "preset", "shape of the outbox tables: which columns hold what", decoder.PresetNames()[0], decoder.PresetNames()[1:]...),
		define(g, kindTables, "tables", "", "instead of --table: a list in YAML of tables with their own preset and columns"),
		define(g, kindText, "message-prefix", "", "publish logical messages with this prefix too, which pg_logical_emit_message writes without a table; with an empty --table those alone (default: none)"),
		define(g, kindSwitch, "no-wait", "false", "end with exit code 7 if another process holds the slot"),
		define(g, kindDuration, "silence-timeout", "30s", "a session in which the server says nothing for so long is ended"),
		define(g, kindDuration, "status-interval", "", "longest time between two reports to the server (default: a third of its wal_sender_timeout, at most 10s)"),
	}
}

func kafkaOptions() []*option {
	const g = groupKafka
	return []*option{
		define(g, kindList, "brokers", "", "addresses, host:port, from which the cluster is found"),
		choice(g, "compression", "how batches are compressed", "none", "gzip", "snappy", "lz4", "zstd"),
		define(g, kindSwitch, "tls", "false", "speak TLS to the brokers"),
		define(g, kindPath, "tls-ca", "", "PEM file of the certificates to trust (default: the system's)"),
		define(g, kindPath, "tls-cert", "", "PEM file of the client's certificate"),
		define(g, kindPath, "tls-key", "", "PEM file of the client's key"),
		define(g, kindText, "tls-server-name", "", "name expected in the brokers' certificates instead of the host's"),
		define(g, kindSwitch, "tls-insecure-skip-verify", "false", "accept any certificate of the brokers"),
		choice(g, "sasl-mechanism", "how to log in (default: not at all)", "", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
		define(g, kindText, "sasl-user", "", "user of the login"),
		define(g, kindSecret, "sasl-password", "", "password of the login; others can see arguments, so better in a file"),
		define(g, kindPath, "sasl-password-file", "", "file that holds the password of the login"),
		choice(g, "fence", "shut out other writers: as far as the rights allow, or not start without them, or never", "auto", "require", "off"),
		define(g, kindText, "kafka-version", "2.8.0", "protocol level to speak at most"),
	}
}

func eventOptions() []*option {
	const g = groupEvents
	return []*option{
		define(g, kindText, "topic", "outbox.event.{aggregate_type}", "topic; may name {aggregate_type}, {aggregate_id}, {event_type}, {schema}, {table} and {column:NAME}"),
		define(g, kindList, "topic-map", "", "topics of single aggregate types instead, as AGGREGATE_TYPE=TOPIC"),
		suggest(g, "key", "key of a record: event_id, aggregate_id or column:NAME", "event_id", "aggregate_id"),
		suggest(g, "partition-by", "what chooses the partition, as the Java client would: aggregate_id, key, column:NAME or none; or number:NAME, a column that holds its number",
			"aggregate_id", "key", "none"),
		define(g, kindList, "include-types", "", "event types to publish; others are passed over (default: all)"),
		define(g, kindList, "exclude-types", "", "event types to pass over"),
		choice(g, "headers", "names of the headers: our own, those of Debezium's outbox event router, or CloudEvents in binary mode", "plain", "debezium", "cloudevents"),
		define(g, kindList, "header", "", "columns to send as headers too, as COLUMN or COLUMN:NAME"),
		define(g, kindList, "static-header", "", "headers that are the same in every record, as NAME=VALUE"),
		define(g, kindSwitch, "envelope", "false", "make the value a JSON object with id, type, aggregate, time and payload"),
		choice(g, "timestamp", "timestamp of a record: when it was committed, what its created_at says, or when it was sent", "commit", "created_at", "publish"),
		choice(g, "on-poison", "an event that can never be published: set it aside in outbox_dead_letters, or stop", "dead-letter", "halt"),
		choice(g, "on-unknown-topic", "an event whose topic does not exist: wait for the topic, or set it aside", "wait", "dead-letter"),
		define(g, kindSwitch, "create-topics", "false", "create topics that are missing; without it the brokers' auto.create.topics.enable decides"),
		define(g, kindNumber, "create-topics-partitions", "0", "partitions of a topic that is created; 0 is the brokers' default"),
		define(g, kindNumber, "create-topics-replication", "0", "replicas of a topic that is created; 0 is the brokers' default"),
		define(g, kindSize, "max-in-flight-bytes", "32MiB", "memory for events received and not yet acknowledged"),
		define(g, kindSwitch, "position-headers", "true", "headers by which a restart recognises what a partition holds"),
	}
}

func processOptions() []*option {
	const g = groupProcess
	return []*option{
		define(g, kindPath, optionConfig, "", "configuration file, in YAML; its keys are the names of the flags"),
		define(g, kindText, "http", "", "address, [host]:port, of /metrics, /livez, /readyz and /status; without a host on loopback alone (default: none)"),
		choice(g, "log-level", "the least that is logged", "info", "debug", "warn", "error"),
		choice(g, "log-format", "auto is text on a terminal and JSON otherwise", "auto", "text", "json"),
		define(g, kindDuration, "start-timeout", defaultStartTimeout.String(), "how long faults are retried before the first session is up"),
		define(g, kindDuration, "shutdown-timeout", defaultShutdownTimeout.String(), "how long SIGTERM waits for acknowledgements"),
	}
}

func commandOptions() []*option {
	return []*option{
		ofCommand(kindSwitch, "print-sql", "false", "print the SQL and change nothing"),
		ofCommand(kindText, "role", "", "role to grant the rights to that run needs"),
		ofCommand(kindSwitch, "full", "false", "create the table with the columns of the polling pattern too"),
		ofCommandChoice("id-type", "type of the event id in a table that is created", "uuid", "text", "bigint"),
		ofCommand(kindNumber, "partitions", "0", "create an event store in so many partitions, by hash of the stream; 0 is none"),
		ofCommand(kindText, "to", "", "LSN to move the slot to, or now for the end of the write-ahead log"),
		ofCommand(kindDuration, "timeout", "", "give up after this time (default: wait)"),
		ofCommand(kindSwitch, "failover", "false", "have standbys keep a copy of the slot (PostgreSQL 17 and later)"),
		ofCommand(kindSwitch, "yes", "false", "do not ask"),
		ofCommand(kindSwitch, "force", "false", "end the process that holds the slot first, and do without our record"),
		output("text", "json"),
	}
}

// define defines an option that is a flag, a variable and a key.
func define(group string, kind kind, name, standard, use string) *option {
	return &option{name: name, group: group, use: use, kind: kind, standard: standard}
}

// choice defines an option whose values are known. The first is the default;
// an empty one is none.
func choice(group, name, use, standard string, others ...string) *option {
	o := define(group, kindChoice, name, standard, use)
	if standard != "" {
		o.choices = append(o.choices, standard)
	}
	o.choices = append(o.choices, others...)
	return o
}

// suggest defines an option of which some values are known. The first is the
// default.
func suggest(group, name, use, standard string, others ...string) *option {
	o := choice(group, name, use, standard, others...)
	o.kind = kindText
	return o
}

// ofCommand defines a flag that says what a command is to do this time.
func ofCommand(kind kind, name, standard, use string) *option {
	o := define(groupCommand, kind, name, standard, use)
	o.ofCommand = true
	return o
}

// ofCommandChoice is choice for a flag of a command.
func ofCommandChoice(name, use, standard string, others ...string) *option {
	o := choice(groupCommand, name, use, standard, others...)
	o.ofCommand = true
	return o
}

// output defines -o of a command that prints one of two formats.
func output(standard, other string) *option {
	return ofCommandChoice("o", "format of the output", standard, other)
}

// flags returns the flags with the given names, in that order, with those that
// go with one of them, and the configuration file.
func flags(names ...string) []cli.Flag {
	all := definitions()
	var chosen []cli.Flag
	configured := false
	for _, name := range accompanied(names) {
		i := slices.IndexFunc(all, func(o *option) bool { return o.name == name })
		if i < 0 {
			panic(fmt.Sprintf("flag --%s is not defined", name))
		}
		configured = configured || all[i].isKey()
		chosen = append(chosen, all[i])
	}
	if configured {
		chosen = append(chosen, flags(optionConfig)...)
	}
	return chosen
}

// accompanied puts behind a name those that stand for it: the file of a secret,
// other ways to say which tables.
func accompanied(names []string) []string {
	var all []string
	for _, name := range names {
		switch all = append(all, name); name {
		case "dsn":
			all = append(all, "dsn"+fileSuffix, "password", "password"+fileSuffix)
		case "table":
			all = append(all, "preset", "tables", "message-prefix")
		case "sasl-password":
			all = append(all, "sasl-password"+fileSuffix)
		}
	}
	return all
}

// configuration returns all options that a configuration file may hold.
func configuration() []*option {
	return slices.DeleteFunc(definitions(), func(o *option) bool { return !o.isKey() })
}

// options returns the options of a command.
func options(c *cli.Command) []*option {
	var all []*option
	for _, f := range c.Flags {
		if o, ok := f.(*option); ok {
			all = append(all, o)
		}
	}
	return all
}

// findOption returns the option with a name, nil if there is none.
func findOption(all []*option, name string) *option {
	i := slices.IndexFunc(all, func(o *option) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

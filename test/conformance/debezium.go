//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience is how long one side may take for one comparison.
const patience = 3 * time.Minute

// connector is the configuration of Debezium's side.
func (s *stage) connector(c comparison) (map[string]string, error) {
	server, err := pgx.ParseConfig(s.postgres.DSN(database))
	if err != nil {
		return nil, err
	}
	settings := map[string]string{
		"connector.class":             "io.debezium.connector.postgresql.PostgresConnector",
		"tasks.max":                   "1",
		"database.hostname":           server.Host,
		"database.port":               strconv.Itoa(int(server.Port)),
		"database.user":               server.User,
		"database.password":           "none",
		"database.dbname":             database,
		"topic.prefix":                "connector." + c.name,
		"plugin.name":                 "pgoutput",
		"slot.name":                   slotOf(thereSide, c),
		"publication.name":            publicationOf(thereSide, c),
		"publication.autocreate.mode": "disabled",
		"table.include.list":          strings.ReplaceAll(strings.Join(c.tableNames(), ","), ".", `\.`),
		"snapshot.mode":               "no_data",
		"tombstones.on.delete":        "false",
		"extended.headers.enabled":    "false",
		"poll.interval.ms":            "200",
		"transforms":                  "outbox",
		"transforms.outbox.type":      "io.debezium.transforms.outbox.EventRouter",
	}
	for name, value := range c.connector {
		settings[name] = value
	}
	router := over(map[string]string{"route.topic.replacement": "outbox.event.${routedByValue}"}, c.routerOptions())
	router["route.topic.replacement"] = topicPrefix(thereSide, c) + router["route.topic.replacement"]
	for name, value := range router {
		settings["transforms.outbox."+name] = value
	}
	return settings, nil
}

// startThere has Debezium begin with a comparison.
func (s *stage) startThere(ctx context.Context, c comparison) error {
	settings, err := s.connector(c)
	if err != nil {
		return err
	}
	return s.connect.Add(ctx, c.name, settings)
}

// awaitThere waits until Debezium has made a record of each row, or has ended,
// and returns why it has. Where it ends, what it wrote before is there.
func (s *stage) awaitThere(ctx context.Context, c comparison) (failed string, err error) {
	err = await(ctx, patience, func(ctx context.Context) error {
		why, err := s.connect.Failure(ctx, c.name)
		if err != nil || why != "" {
			failed = rootCause(why)
			return err
		}
		written, err := s.written(ctx, topicsOf(thereSide, c))
		if err == nil && written < len(c.rows) {
			err = fmt.Errorf("%s: Debezium has written %d records, not yet %d", c.name, written, len(c.rows))
		}
		return err
	})
	return failed, err
}

// rootCause is the message of the innermost exception of a Java stack trace.
func rootCause(trace string) string {
	cause := ""
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		if inner, found := strings.CutPrefix(line, "Caused by: "); found || cause == "" {
			cause = strings.TrimSpace(inner)
			if !found {
				cause = line
			}
		}
	}
	return cause
}

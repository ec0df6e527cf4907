//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// environment leads the binary to the servers and to a comparison's tables.
func (s *stage) environment(c comparison) []string {
	return []string{
		"OUTBOX_CDC_DSN=" + s.postgres.DSN(database),
		"OUTBOX_CDC_BROKERS=" + strings.Join(s.kafka.Addrs(), ","),
		"OUTBOX_CDC_SLOT=" + slotOf(hereSide, c),
		"OUTBOX_CDC_PUBLICATION=" + publicationOf(hereSide, c),
	}
}

// tableFlags say which tables there are and what their columns are.
func (c comparison) tableFlags(dir string) ([]string, error) {
	if c.mapping == "" {
		return []string{"--preset", "debezium", "--table", strings.Join(c.tableNames(), ",")}, nil
	}
	file := filepath.Join(dir, c.name+".yaml")
	return []string{"--config", file}, os.WriteFile(file, []byte("tables:\n"+
		"  - name: "+c.tableNames()[0]+"\n"+
		"    columns: {"+c.mapping+"}\n"), 0o644)
}

// initialize has the binary make its slot and its support tables.
func (s *stage) initialize(ctx context.Context, c comparison) error { return s.command(ctx, c, "init") }

// command runs one of the binary's commands on a comparison's tables.
func (s *stage) command(ctx context.Context, c comparison, args ...string) error {
	return s.inDirectory(func(dir string) error {
		flags, err := c.tableFlags(dir)
		if err != nil {
			return err
		}
		r, err := harness.StartRelay(ctx, s.environment(c), append(args, flags...)...)
		if err != nil {
			return err
		}
		code, err := r.Wait(ctx)
		if err == nil && code != 0 {
			err = fmt.Errorf("%s: %s ended with %d: %s", c.name, args[0], code, r.Stderr())
		}
		return errors.Join(err, r.Close())
	})
}

// runHere has the binary publish the rows of a comparison, to the end of the
// log, and returns why it refused to, if it did.
func (s *stage) runHere(ctx context.Context, c comparison) (failed string, err error) {
	return s.runHereWhile(ctx, c, func() error { return nil })
}

// runHereWhile is runHere to the end of the log after meanwhile.
func (s *stage) runHereWhile(ctx context.Context, c comparison, meanwhile func() error) (failed string, err error) {
	err = s.inDirectory(func(dir string) error {
		flags, err := c.tableFlags(dir)
		if err != nil {
			return err
		}
		args := slices.Concat([]string{"run"}, flags, baseFlags, c.relayFlags())
		r, err := harness.StartRelay(ctx, s.environment(c), args...)
		if err != nil {
			return err
		}
		if err = meanwhile(); err == nil {
			failed, err = s.publish(ctx, c, r)
		}
		if err != nil {
			err = fmt.Errorf("%w; %s", err, r.Stderr())
		}
		return errors.Join(err, r.Close())
	})
	return failed, err
}

// relayFlags are the flags of the comparison, with the prefix of the topics.
func (c comparison) relayFlags() []string {
	flags := slices.Clone(c.relay)
	i := slices.Index(flags, "--topic")
	if i < 0 {
		i, flags = len(flags), append(flags, "--topic", "outbox.event.{aggregate_type}")
	}
	prefix := topicPrefix(hereSide, c)
	flags[i+1] = prefix + flags[i+1]
	if i := slices.Index(flags, "--topic-map"); i >= 0 {
		flags[i+1] = strings.ReplaceAll(flags[i+1], "=", "="+prefix)
	}
	return flags
}

// publish waits until the slot is confirmed to where the log ends now, and then
// stops the relay in order.
func (s *stage) publish(ctx context.Context, c comparison, r *harness.Relay) (failed string, err error) {
	end, err := harness.QueryValue[string](ctx, s.postgres, database, "SELECT pg_current_wal_lsn()::text")
	if err != nil {
		return "", err
	}
	err = await(ctx, patience, func(ctx context.Context) error {
		if !r.Running() {
			failed = lastLine(r.Stderr())
			return nil
		}
		done, err := harness.QueryValue[bool](ctx, s.postgres, database,
			"SELECT confirmed_flush_lsn >= $1::text::pg_lsn FROM pg_replication_slots WHERE slot_name = $2", end, slotOf(hereSide, c))
		if err == nil && !done {
			err = fmt.Errorf("%s: the slot is not yet confirmed up to %s", c.name, end)
		}
		return err
	})
	if err != nil || failed != "" {
		return failed, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	code, _, err := r.Stop(ctx, syscall.SIGTERM)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: outbox-cdc ended with %d", c.name, code)
	}
	return "", err
}

// deadLetters are the ids of the rows that were set aside.
func (s *stage) deadLetters(ctx context.Context, c comparison) ([]string, error) {
	return harness.Query[string](ctx, s.postgres, database, "SELECT event_id FROM "+c.schema()+".outbox_dead_letters ORDER BY position")
}

// inDirectory calls do with a directory that is removed behind it.
func (s *stage) inDirectory(do func(dir string) error) error {
	dir, err := os.MkdirTemp("", "outbox-cdc-conformance-")
	if err != nil {
		return err
	}
	return errors.Join(do(dir), os.RemoveAll(dir))
}

// lastLine is the last line of a text that says something.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

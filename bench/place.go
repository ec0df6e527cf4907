//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// place is where a case is measured: a database with an outbox, a slot for each
// run of each contender, and topics.
type place struct {
	scenario
	b        *bench
	pg       *harness.Postgres
	kafka    *harness.Kafka
	database string
	topics   []string
	watcher  *watcher
	slots    map[string][]string // by contender, one for each round
	backlog  bool                // there are rows before anybody is measured
	report   *caseReport
}

// newPlace makes the place. It is returned with an error too, to be closed.
func newPlace(ctx context.Context, b *bench, s scenario, rounds int, report *caseReport) (*place, error) {
	p := &place{
		scenario: s, b: b, pg: b.servers.postgres, kafka: b.servers.kafka, slots: make(map[string][]string), report: report,
		database: strings.ReplaceAll(s.name, "-", "_"), backlog: s.load.rows > 0,
	}
	for _, t := range aggregateTypes(s.topics) {
		p.topics = append(p.topics, "outbox.event."+t)
	}
	p.watcher = newWatcher(b.servers.client, p.topics, s.partitions)
	if err := p.pg.Exec(ctx, "postgres", "CREATE DATABASE "+pgx.Identifier{p.database}.Sanitize()); err != nil {
		return p, err
	}
	for _, who := range s.contenders {
		name := p.database
		if who != ours {
			name += "_" + strings.Fields(who)[0]
		}
		for i := range rounds {
			p.slots[who] = append(p.slots[who], fmt.Sprintf("%s_%d", name, i))
		}
	}
	if err := p.command(ctx, p.slots[ours][0], "init"); err != nil {
		return p, err
	}
	setUp := []string{loadProcedure, trickleProcedure}
	if s.load.rowBytes >= 2000 {
		setUp = append(setUp, "ALTER TABLE outbox_events ALTER payload SET STORAGE EXTERNAL") // it cannot be compressed, and nobody shall try
	}
	for _, sql := range setUp {
		if err := p.pg.Exec(ctx, p.database, sql); err != nil {
			return p, err
		}
	}
	if !p.backlog {
		return p, nil // a slot made now would hold the rows of the rounds before its own
	}
	for _, who := range s.contenders {
		for i := range rounds {
			if err := p.makeSlot(ctx, who, i); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// makeSlot makes the slot of a contender for a round, unless init has.
func (p *place) makeSlot(ctx context.Context, who string, round int) error {
	slot := p.slots[who][round]
	switch {
	case who != ours:
		return p.pg.Exec(ctx, p.database, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", slot))
	case round > 0:
		return p.command(ctx, slot, "slot", "create")
	}
	return nil
}

// close removes the database and its slots. The topics go when they are needed
// again, or with the broker.
func (p *place) close(ctx context.Context) error {
	if p == nil || ctx.Err() != nil || !p.pg.Running() {
		return nil // everything is about to end
	}
	return p.pg.DropDatabase(ctx, p.database)
}

// measured notes what a run has measured, and says so.
func (p *place) measured(who string, s sample) {
	p.report.add(who, s)
	var parts []string
	for _, f := range figures() {
		if v, is := s[f.name]; is {
			parts = append(parts, f.heading+" "+number(v, f.digits))
		}
	}
	p.b.say("  %-18s %s", who, strings.Join(parts, ", "))
}

// rounds calls do with each contender and its slot, forwards in one round and
// backwards in the next, so that nobody always comes first.
func (p *place) rounds(ctx context.Context, do func(who, slot string) error) error {
	for i := range p.slots[ours] {
		order := slices.Clone(p.contenders)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, who := range order {
			if !p.backlog {
				if err := p.makeSlot(ctx, who, i); err != nil {
					return err
				}
			}
			if err := do(who, p.slots[who][i]); err != nil {
				return fmt.Errorf("%s, round %d: %w", who, i+1, err)
			}
		}
	}
	return nil
}

// environment leads the binary to the place and to a slot. All else is left at
// its defaults.
func (p *place) environment(slot string) []string {
	return []string{
		"OUTBOX_CDC_DSN=" + p.pg.DSN(p.database), "OUTBOX_CDC_SLOT=" + slot, "OUTBOX_CDC_BROKERS=" + strings.Join(p.kafka.Addrs(), ","),
	}
}

// profiles tell a binary that was built to be profiled where to write them.
func (p *place) profiles(slot string) []string {
	if p.b.profile == "" {
		return nil
	}
	name := filepath.Join(p.b.profile, slot)
	return []string{"OUTBOX_CDC_CPU_PROFILE=" + name + ".cpu.pprof", "OUTBOX_CDC_HEAP_PROFILE=" + name + ".heap.pprof"}
}

// command runs a command of the binary to its end.
func (p *place) command(ctx context.Context, slot string, args ...string) error {
	r, err := harness.StartRelay(ctx, p.environment(slot), args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	code, err := r.Wait(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("outbox-cdc %s: exit code %d: %s", strings.Join(args, " "), code, strings.TrimSpace(r.Stderr()))
	}
	return errors.Join(err, r.Close())
}

// relay is the binary at work.
type relay struct {
	*harness.Relay
	begun time.Time
}

// start starts the binary on a slot, with topics that are empty. The caller
// closes it.
func (p *place) start(ctx context.Context, slot string) (*relay, error) {
	if err := p.watcher.renewTopics(ctx); err != nil {
		return nil, err
	}
	env := append(p.environment(slot), p.profiles(slot)...)
	begun := time.Now()
	r, err := harness.StartRelay(ctx, env, "run")
	return &relay{r, begun}, err
}

// running returns an error if the relay has ended.
func (r *relay) running() error {
	if r.Running() {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(r.Stderr()), "\n")
	return fmt.Errorf("it has ended by itself: %s", strings.Join(lines[max(0, len(lines)-5):], "; "))
}

// stop ends the relay in order.
func (r *relay) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("not within 30 s after SIGTERM"))
	defer cancel()
	code, _, err := r.Stop(ctx, syscall.SIGTERM)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d after SIGTERM: %w", code, r.running())
	}
	return err
}

// memory notes the relay's peak.
func (r *relay) memory(s sample) error {
	peak, err := r.PeakRSS()
	s[peakMemory.name] = float64(peak) / (1 << 20)
	return err
}

// awaitConfirmed waits until a slot is confirmed up to a position.
func (p *place) awaitConfirmed(ctx context.Context, slot string, upTo pglogrepl.LSN, running func() error) error {
	conn, err := p.pg.Connect(ctx, p.database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return await(ctx, "the slot is confirmed", 5*time.Millisecond, func() (done bool, err error) {
		const query = "SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1"
		if err := running(); err != nil {
			return false, err
		}
		err = conn.QueryRow(ctx, query, slot, upTo.String()).Scan(&done)
		return done, err
	})
}

// dropSlot drops the slot of a run, so that the server need not keep its WAL.
func (p *place) dropSlot(ctx context.Context, slot string) error {
	return await(ctx, "the slot can be dropped", 20*time.Millisecond, func() (bool, error) {
		n, err := harness.QueryValue[int](ctx, p.pg, p.database, `
			SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active`, slot)
		return n == 1, err
	})
}

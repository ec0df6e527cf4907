//go:build linux || darwin

package main

import (
	"context"
	"math"
	"time"
)

// scenario is a case: what is waiting or coming, and how it is measured.
type scenario struct {
	name  string
	title string
	full  bool // takes long: only with -full
	load  load
	// topics is how many there are, each of partitions; the rows of an
	// aggregate type go to one of them.
	topics     int
	partitions int
	// contenders are who is measured, in the order of the first round.
	contenders []string
	once       bool // one run is enough, whatever -repeat says
	// rate is how many rows a second are committed, for a time, while the
	// relay runs; none if it is 0.
	rate int
	time time.Duration
	run  func(*place, context.Context) error
}

// load is what is committed before a case is measured.
type load struct {
	rows           int
	perTransaction int
	rowBytes       int // of the payload as it is printed
}

// The contenders.
const (
	ours  = "outbox-cdc"
	naive = "naive reading"
	paced = "best paced reading"
)

var (
	everybody = []string{naive, paced, ours}
	alone     = []string{ours}
)

// usualPartitions is how many the topic has where a case is not about that.
const usualPartitions = 8

// scenarios are all cases, in the order in which they are measured.
func scenarios() []scenario {
	drain := func(name, title string, l load, partitions int, contenders []string) scenario {
		return scenario{name: name, title: title, load: l, topics: 1, partitions: partitions, contenders: contenders, run: (*place).drain}
	}
	long := func(s scenario) scenario {
		s.full = true
		return s
	}
	latency := func(name, title string, rate, perTransaction int) scenario {
		return scenario{
			name: name, title: title, load: load{perTransaction: perTransaction, rowBytes: 300}, topics: 1, partitions: usualPartitions,
			contenders: alone, rate: rate, time: 12 * time.Second, run: (*place).latency,
		}
	}
	many := drain("topics-200", "300k rows of 300 bytes, 100 a transaction, to 200 topics of 1 partition", load{300_000, 100, 300}, 1, alone)
	many.topics = 200
	return []scenario{
		drain("drain-100", "drain of 1 M rows of 300 bytes, 100 a transaction", load{1_000_000, 100, 300}, usualPartitions, everybody),
		drain("drain-1", "drain of 1 M rows of 300 bytes, 1 a transaction", load{1_000_000, 1, 300}, usualPartitions, everybody),
		drain("drain-1m", "drain of 1 M rows of 300 bytes in one transaction", load{1_000_000, 1_000_000, 300}, usualPartitions, everybody),
		drain("rows-2kb", "drain of 200k rows of 2 kB, 100 a transaction", load{200_000, 100, 2000}, usualPartitions, everybody),
		drain("rows-500kb", "drain of 2,000 rows of 500 kB, 1 a transaction", load{2000, 1, 500_000}, usualPartitions, everybody),
		latency("latency-100", "latency at 100 rows/s, 1 a transaction", 100, 1),
		latency("latency-1000", "latency at 1,000 rows/s, 1 a transaction", 1000, 1),
		latency("latency-10000", "latency at 10,000 rows/s, 10 a transaction", 10_000, 10),
		drain("start", "start with 20,000 rows waiting, 100 a transaction", load{20_000, 100, 300}, usualPartitions, alone),
		{name: "idle", title: "a minute without rows", topics: 1, partitions: usualPartitions, contenders: alone, once: true, time: time.Minute, run: (*place).idle},
		drain("partitions-1", "300k rows of 300 bytes, 100 a transaction, to 1 partition", load{300_000, 100, 300}, 1, alone),
		drain("partitions-8", "300k rows of 300 bytes, 100 a transaction, to 8 partitions", load{300_000, 100, 300}, 8, alone),
		drain("partitions-64", "300k rows of 300 bytes, 100 a transaction, to 64 partitions", load{300_000, 100, 300}, 64, alone),
		many,
		long(drain("backlog-5m", "drain of 5 M rows of 300 bytes, 100 a transaction", load{5_000_000, 100, 300}, usualPartitions, everybody)),
		long(drain("transactions-10", "drain of 1 M rows of 300 bytes, 10 a transaction", load{1_000_000, 10, 300}, usualPartitions, everybody)),
		long(drain("transactions-1000", "drain of 1 M rows of 300 bytes, 1,000 a transaction", load{1_000_000, 1000, 300}, usualPartitions, everybody)),
		long(drain("transactions-10000", "drain of 1 M rows of 300 bytes, 10,000 a transaction", load{1_000_000, 10_000, 300}, usualPartitions, everybody)),
		long(drain("rows-100b", "drain of 1 M rows of 100 bytes, 100 a transaction", load{1_000_000, 100, 100}, usualPartitions, everybody)),
		long(drain("rows-20kb", "drain of 20,000 rows of 20 kB, 100 a transaction", load{20_000, 100, 20_000}, usualPartitions, everybody)),
	}
}

// chosen returns the cases that are to be measured, scaled.
func (o options) chosen() []scenario {
	var chosen []scenario
	for _, s := range scenarios() {
		if s.full == o.full && (o.only == nil || o.only.MatchString(s.name)) {
			chosen = append(chosen, s.scaled(o.scale))
		}
	}
	return chosen
}

func caseNames(full bool) []string {
	var names []string
	for _, s := range (options{full: full}).chosen() {
		names = append(names, s.name)
	}
	return names
}

// Below these a case would not show what it is about: each partition gets rows.
const (
	fewestRows   = 1000
	fewestLarge  = 100 // rows of largeBytes and more
	largeBytes   = 10_000
	shortestTime = time.Second
)

// scaled returns the case with more or fewer rows, and more or less time.
func (s scenario) scaled(by float64) scenario {
	if by == 1 {
		return s
	}
	if s.load.rows > 0 {
		fewest := fewestRows
		if s.load.rowBytes >= largeBytes {
			fewest = fewestLarge
		}
		whole := s.load.perTransaction == s.load.rows
		s.load.rows = max(int(math.Round(float64(s.load.rows)*by)), fewest)
		if whole || s.load.perTransaction > s.load.rows {
			s.load.perTransaction = s.load.rows
		}
	}
	if s.time > 0 {
		s.time = max(time.Duration(float64(s.time)*by), shortestTime)
	}
	return s
}

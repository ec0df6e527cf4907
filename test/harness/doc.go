// Package harness starts what tests, the demo and the benchmarks run against:
// real PostgreSQL servers, real Apache Kafka brokers, TCP proxies that
// misbehave on demand, and the outbox-cdc binary as a process of its own.
//
// Everything listens on free ports of 127.0.0.1 and lives in temporary
// directories. Whatever is started is ended, and whatever is created is
// removed, when it is closed, when the process that started it exits, and also
// when that process is killed: a child that outlives it (see sweeper) sees to
// that.
//
// What the machine lacks is fetched once into a cache (see CacheDir): Kafka's
// jars through Maven, other versions of PostgreSQL through npm; PostgreSQL,
// Java, Maven and npm themselves through the system's package client.
//
// The core needs no testing.TB: StartPostgres, StartKafka, StartProxy,
// BuildBinary and StartProcess return errors. Tests use the short forms in
// testing.go, which share one server per test process, use Name for names of
// their own, and end in t.Fatal.
package harness

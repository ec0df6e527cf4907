// Package integration tests the real binary against real PostgreSQL servers
// and real Kafka brokers, and injects what happens to them in production.
//
// Every test works on an outbox (a database, its slot and topics of its own)
// and ends in the one oracle, outbox.verify: all committed ids are in Kafka, no
// rolled-back id is, records of an aggregate and of a partition are in commit
// order, the slot was never confirmed past an event that the brokers had not
// acknowledged, and there is no duplicate unless the test names what allows one.
// What was committed, and in which order, is known from a second slot with
// another output plugin, so the product has no part in its own judgement.
//
// TestTorture does at random, and for as long as one likes, what the others do
// one by one. Its faults are in the torture_..._test.go files, by what they work
// on.
//
// A test says which rows of docs/guarantees.md it stands for in a line of its
// doc comment that starts with "Behaviours:".
package integration

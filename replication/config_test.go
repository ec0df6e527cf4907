package replication

import (
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

func TestValidateNamesEveryFault(t *testing.T) {
	good := Config{
		DSN: "postgres://127.0.0.1/shop", Slot: "orders", Publication: "Ma Publication, 1",
		Tables: []decoder.Table{{Schema: "My-App", Name: "OutBox Événements"}},
	}
	if err := good.Validate(); err != nil {
		t.Errorf("a good configuration: %v", err)
	}
	bad := Config{
		DSN: "postgres://%zz", Slot: "Orders", Publication: "",
		Tables:         []decoder.Table{{Schema: "public", Name: strings.Repeat("é", 32)}, {Schema: "a", Name: "b"}, {Schema: "a", Name: "b"}},
		StatusInterval: -time.Second, SilenceTimeout: -time.Minute, MembershipInterval: -1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{
		"--dsn must be a connection URL",
		`--slot must be 1 to 63 lower-case letters, digits and underscores, got "Orders"`,
		"--publication must not be empty",
		"--table name must be at most 63 bytes, got 64",
		`--table must name each table once, got "a"."b" twice`,
		"--status-interval must be positive, got -1s",
		"--silence-timeout must be positive, got -1m",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	slow := good
	slow.StatusInterval = time.Minute
	if err := slow.Validate(); err == nil || !strings.Contains(err.Error(), "--silence-timeout must be longer than --status-interval, got 30s and 1m") {
		t.Errorf("got %v", err)
	}
	none := good
	none.Tables = nil
	if err := none.Validate(); err == nil || !strings.Contains(err.Error(), "--table must name at least one table") {
		t.Errorf("got %v", err)
	}
}

func TestAFaultyDSNIsNotShown(t *testing.T) {
	for _, dsn := range []string{
		"postgres://user:se%cret@host/db",
		"postgres://user:se@cret:x@host:port/db",
		"postgres://user:secret@host:70000/db",
		"user=me password=secret port=secret",
		"user=me password='secret",
		"secret",
		"host=h password=secret sslmode=secret",
		"host=h password=secret connect_timeout=secret",
	} {
		err := Config{DSN: dsn, Slot: "s", Publication: "p", Tables: []decoder.Table{{Schema: "a", Name: "b"}}}.Validate()
		if err == nil {
			t.Errorf("%q is accepted", dsn)
			continue
		}
		if s := err.Error(); strings.Contains(s, "cret") || strings.Contains(s, "\n") || !strings.Contains(s, "--dsn") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

func TestSlotNamesThatTheServerWouldChangeAreRefused(t *testing.T) {
	for name, ok := range map[string]bool{
		"orders": true, "1": true, "a_b_2": true, strings.Repeat("a", 63): true,
		"": false, "Orders": false, "or-ders": false, "or ders": false, "é": false, strings.Repeat("a", 64): false, "a;b": false,
	} {
		if err := ValidateSlotName(name); (err == nil) != ok {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

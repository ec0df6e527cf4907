//go:build linux || darwin

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestConfigurationFile gives the relay all that it needs in a file, and the
// password, one with which every other place has its difficulties, in another:
// a server behind an address that is dead, two tables on one slot. None of it
// is printed.
//
// Behaviours: S29
func TestConfigurationFile(t *testing.T) {
	const password = `per%cent\ 'quoted' @home`
	pg := harness.NewPostgres(t, harness.PostgresConfig{HBA: []string{"host all guarded 127.0.0.1/32 scram-sha-256"}})
	create := "CREATE ROLE guarded LOGIN REPLICATION PASSWORD '" + strings.ReplaceAll(password, "'", "''") + "'"
	if err := pg.Exec(t.Context(), "postgres", create); err != nil {
		t.Fatal(err)
	}
	o := newOutbox(t, outboxConfig{postgres: pg})
	invoices := o.topic("invoice") // not one that the oracle looks at
	if err := o.kafka.CreateTopic(t.Context(), invoices, harness.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if result := o.command("init", "--table", o.table+",billing", "--role", "guarded"); result.Code != 0 {
		t.Fatalf("init ended with %d: %s", result.Code, result.Stderr)
	}

	dir := t.TempDir()
	keep := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// The statements of the release build are prepared, whatever the string
	// asks for.
	config := keep("relay.yaml", fmt.Sprintf(`
dsn: postgres://guarded@127.0.0.1:1,%s/%s?sslmode=disable&target_session_attrs=read-write&default_query_exec_mode=simple_protocol
password-file: %s
slot: %s
table: [%s, billing]
brokers: [%s]
topic: %s.{aggregate_type}
`, pg.Addr(), o.database, keep("password", password+"\n"), o.slot, o.table, strings.Join(o.kafka.Addrs(), ", "), o.topicPrefix))
	env := []string{"OUTBOX_CDC_CONFIG=" + config}
	if result := harness.RunRelay(t, env, "config", "validate"); result.Code != 0 {
		t.Fatalf("config validate ended with %d: %s", result.Code, result.Stderr)
	}
	print := harness.RunRelay(t, env, "config", "print", "-o", "json")
	if print.Code != 0 || !json.Valid([]byte(print.Stdout)) {
		t.Errorf("config print ended with %d: %s%s", print.Code, print.Stdout, print.Stderr)
	}

	r := &relay{Relay: harness.NewRelay(t, env, "run"), o: o}
	r.awaitLog("session started", 1)
	o.insert(5)
	o.exec("INSERT INTO billing (aggregate_type, aggregate_id, event_type, payload) SELECT 'invoice', 'a' || i, 'sent', '{}' FROM generate_series(1, 7) i")
	o.insert(5)
	o.awaitDrained()
	r.stop()
	records, err := o.kafka.ReadAll(t.Context(), invoices)
	if err != nil || len(records) != 7 {
		t.Errorf("%d records of the other table (%v), want 7", len(records), err)
	}
	for _, said := range []string{r.Stderr(), r.Stdout(), print.Stdout} {
		if strings.Contains(said, "per%") || strings.Contains(said, "@home") {
			t.Errorf("the password is printed:\n%s", said)
		}
	}
	o.verify()
}

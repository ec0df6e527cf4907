//go:build linux || darwin

package integration

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// relayRole makes a role that may replicate, takes from the database what
// everybody may do in it, and gives the role what init --role gives. The second
// result is the flag by which the relay logs in as the role.
func relayRole(t *testing.T, o *outbox) (role string, login []string) {
	t.Helper()
	role = harness.Name(t)
	o.exec("CREATE ROLE " + role + " LOGIN REPLICATION")
	o.exec("REVOKE ALL ON DATABASE " + pgx.Identifier{o.database}.Sanitize() + " FROM PUBLIC")
	o.exec("REVOKE ALL ON SCHEMA public FROM PUBLIC")
	if result := o.command("init", "--role", role); result.Code != 0 || strings.Contains(result.Stderr, role) {
		t.Fatalf("init ended with %d: %s", result.Code, result.Stderr)
	}
	return role, []string{"--dsn", o.as(url.User(role))}
}

// TestRefusalOfNoRightThatInitGrants runs the relay as a role with what init
// grants and no more: through a session, a dead letter, a lost walsender and a
// stop. It issues no DDL.
//
// Behaviours: S17
func TestRefusalOfNoRightThatInitGrants(t *testing.T) {
	const complaint = "outbox-cdc has issued DDL in "
	o := newOutbox(t, outboxConfig{sql: tableWith("jsonb")})
	role, login := relayRole(t, o)
	o.exec(fmt.Sprintf(`CREATE FUNCTION forbid() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN IF session_user = '%s' THEN RAISE '%s%%', current_database(); END IF; END $$`, role, complaint))
	o.exec("CREATE EVENT TRIGGER forbid ON ddl_command_start EXECUTE FUNCTION forbid()")
	r := o.start(login...)
	o.insert(5)
	setAside := idOf(o.insertTyped("a/b"))
	o.awaitDrained()
	o.exec("SELECT pg_terminate_backend($1)", o.walsender())
	o.insert(5)
	o.awaitDrained()
	r.stop()
	for _, line := range r.log("") {
		if strings.Contains(line.text("msg"), "GRANT") {
			t.Errorf("it asks for more rights: %v", line)
		}
	}
	if clean := value[bool](o, "SELECT clean FROM outbox_cdc_checkpoint WHERE slot = $1", o.slot); !clean {
		t.Error("the record of the slot was not closed")
	}
	log, err := os.ReadFile(o.pg.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), complaint+o.database) {
		t.Error("the relay has issued DDL")
	}
	o.verifyExcept(exceptions{setAside: []string{setAside}})
}

// TestRefusalWithoutTheSupportTables takes from the role what init grants on
// the support tables. Without the dead letters the relay refuses to start,
// unless there are to be none; without the record there is no detection of
// gaps, which is said once.
//
// Behaviours: S17
func TestRefusalWithoutTheSupportTables(t *testing.T) {
	o := newOutbox(t, outboxConfig{})
	role, login := relayRole(t, o)
	o.insert(1)
	for _, right := range []string{"SELECT", "INSERT"} {
		refusal{
			spoil: []string{"REVOKE " + right + " ON outbox_dead_letters FROM " + role},
			flags: args(login...), code: exitDenied,
			texts:   []string{`GRANT SELECT, INSERT ON "public"."outbox_dead_letters" TO "` + role + `"`, "--on-poison halt"},
			restore: []string{"GRANT " + right + " ON outbox_dead_letters TO " + role},
		}.check(t, o)
	}
	o.exec("REVOKE ALL ON outbox_dead_letters FROM " + role)
	login = append(login, "--on-poison", "halt")
	for _, right := range []string{"UPDATE", "INSERT", "SELECT"} {
		o.exec("REVOKE " + right + " ON outbox_cdc_checkpoint FROM " + role)
		r := o.start(login...)
		o.insert(5)
		o.awaitDrained()
		o.exec("SELECT pg_terminate_backend($1)", o.walsender())
		r.awaitLog("session started", 2)
		r.stop()
		if n := strings.Count(r.Stderr(), "gap detection is off"); n != 1 {
			t.Errorf("without %s it is said %d times that gap detection is off, want once:\n%s", right, n, r.Stderr())
		}
		if !strings.Contains(r.Stderr(), `GRANT SELECT, INSERT, UPDATE ON \"public\".\"outbox_cdc_checkpoint\"`) {
			t.Errorf("without %s the GRANT is not named:\n%s", right, r.Stderr())
		}
	}
	o.verify()
}

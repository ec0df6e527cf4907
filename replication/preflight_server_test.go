//go:build linux || darwin

package replication

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestPreflightFindsWhatIsWrong(t *testing.T) {
	pg := harness.SharedPostgres(t)
	streamed := func(context.Context, *pgx.Conn) ([]string, error) {
		return []string{`"public"."outbox_events"`}, nil
	}
	tests := []struct {
		name    string
		prepare func(*outbox)
		want    error  // nil: none
		says    string // a part of the message, or of a warning
	}{
		{"nothing", func(o *outbox) {}, nil, ""},
		{"publication missing", func(o *outbox) { o.exec("DROP PUBLICATION outbox") }, ErrSetup, `publication "outbox" does not exist`},
		{"publication missing that was streamed", func(o *outbox) {
			o.exec("DROP PUBLICATION outbox")
			o.cfg.Streamed = streamed
		}, ErrGap, "rows may be missing"},
		{"table not published", func(o *outbox) {
			o.exec("ALTER PUBLICATION outbox DROP TABLE outbox_events")
		}, ErrSetup, `does not publish table "public"."outbox_events"`},
		{"table not published that was streamed", func(o *outbox) {
			o.exec("ALTER PUBLICATION outbox DROP TABLE outbox_events")
			o.cfg.Streamed = streamed
		}, ErrGap, "rows may be missing"},
		{"inserts not published", func(o *outbox) {
			o.exec("ALTER PUBLICATION outbox SET (publish = 'update')")
		}, ErrSetup, "SET (publish = 'insert, update')"},
		{"table missing", func(o *outbox) { o.exec("DROP TABLE outbox_events") }, ErrSetup, "does not exist"},
		{"a view", func(o *outbox) {
			o.exec("CREATE VIEW v AS SELECT * FROM outbox_events")
			o.cfg.Tables = []decoder.Table{{Schema: "public", Name: "v"}}
		}, ErrSetup, "is not a table"},
		{"an unlogged table", func(o *outbox) {
			o.exec("CREATE UNLOGGED TABLE u (LIKE outbox_events)")
			o.cfg.Tables = []decoder.Table{{Schema: "public", Name: "u"}}
		}, ErrSetup, "unlogged"},
		{"columns missing", func(o *outbox) {
			o.exec("ALTER TABLE outbox_events DROP COLUMN payload, DROP COLUMN event_type")
		}, ErrSetup, "no column event_type, no column payload"},
		{"a column of a type that will not do", func(o *outbox) {
			o.exec("ALTER TABLE outbox_events ALTER COLUMN created_at DROP DEFAULT, ALTER COLUMN created_at TYPE varchar(30)")
			o.cfg.Tables[0].Needed = []decoder.Needed{{Column: "created_at", By: "--timestamp", Types: []uint32{1184, 20}}}
			o.cfg.Places = map[string]Place{`"public"."outbox_events"`: {Columns: "relay.yaml:3"}}
		}, ErrSetup, `column "created_at" of table "public"."outbox_events" is of type character varying, and --timestamp needs one of timestamptz, int8; ` +
			`as its owner: ALTER TABLE "public"."outbox_events" ALTER COLUMN "created_at" TYPE ... USING ..., or correct --timestamp, or correct relay.yaml:3`},
		{"a column with a new name of a type that will do", func(o *outbox) {
			o.exec("ALTER TABLE outbox_events RENAME COLUMN created_at TO born")
			o.cfg.Tables[0].Needed = []decoder.Needed{{Column: "created_at", By: "--timestamp", Types: []uint32{1184, 20}}}
			o.cfg.Tables[0].Mapping.Renamed = map[string]string{"created_at": "born"}
		}, nil, ""},
		{"a column with a new name of a type that will not do", func(o *outbox) {
			o.exec("ALTER TABLE outbox_events RENAME COLUMN created_at TO born")
			o.cfg.Tables[0].Needed = []decoder.Needed{{Column: "created_at", By: "--timestamp", Types: []uint32{20}}}
			o.cfg.Tables[0].Mapping.Renamed = map[string]string{"created_at": "born"}
		}, ErrSetup, `column "born"`},
		{"a column missing under both of its names", func(o *outbox) {
			o.exec("ALTER TABLE outbox_events DROP COLUMN created_at")
			o.cfg.Tables[0].Needed = []decoder.Needed{{Column: "created_at", By: "--timestamp", Types: []uint32{20}}}
			o.cfg.Tables[0].Mapping.Renamed = map[string]string{"created_at": "born"}
		}, ErrSetup, "no column born or created_at, which --timestamp names"},
		{"partitions under their own names", func(o *outbox) {
			o.exec(`CREATE TABLE p (LIKE outbox_events) PARTITION BY LIST (event_type);
CREATE TABLE p1 PARTITION OF p DEFAULT;
ALTER PUBLICATION outbox ADD TABLE p; ALTER PUBLICATION outbox SET (publish_via_partition_root = false)`)
			o.cfg.Tables = []decoder.Table{{Schema: "public", Name: "p"}}
		}, ErrSetup, "publish_via_partition_root = true"},
		{"a partition beside its root", func(o *outbox) {
			o.exec(`CREATE TABLE p (LIKE outbox_events) PARTITION BY LIST (event_type);
CREATE TABLE p1 PARTITION OF p DEFAULT; ALTER PUBLICATION outbox ADD TABLE p`)
			o.cfg.Tables = []decoder.Table{{Schema: "public", Name: "p"}, {Schema: "public", Name: "p1"}}
			o.cfg.Places = map[string]Place{`"public"."p1"`: {Name: "relay.yaml:3"}}
		}, ErrSetup, `table "public"."p1" is a partition, and publication "outbox" sends its rows as those of table "public"."p"; name only that one: correct relay.yaml:3`},
		{"slot missing", func(o *outbox) { o.dropSlot() }, ErrGap, "does not exist"},
		{"slot of another plugin", func(o *outbox) {
			o.dropSlot()
			o.exec("SELECT pg_create_logical_replication_slot($1, 'test_decoding')", o.cfg.Slot)
		}, ErrSetup, "test_decoding"},
		{"a physical slot", func(o *outbox) {
			o.dropSlot()
			o.exec("SELECT pg_create_physical_replication_slot($1)", o.cfg.Slot)
			o.t.Cleanup(func() { o.pg.Exec(context.Background(), "postgres", "SELECT pg_drop_replication_slot($1)", o.cfg.Slot) })
		}, ErrSetup, "physical"},
		{"a two-phase slot", func(o *outbox) {
			o.dropSlot()
			o.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput', false, true)", o.cfg.Slot)
		}, ErrSetup, "two_phase"},
		{"a slot of another database", func(o *outbox) {
			other := newDatabase(o.t, o.pg)
			if _, err := CreateSlot(o.t.Context(), other.conn, other.cfg.Slot, CreateSlotOptions{}); err != nil {
				o.t.Fatal(err)
			}
			o.cfg.Slot = other.cfg.Slot
		}, ErrSetup, "belongs to database"},
		{"database missing", func(o *outbox) { o.cfg.DSN = o.pg.DSN("nowhere") }, ErrSetup, "does not exist"},
		{"no right to replicate", func(o *outbox) {
			o.exec("CREATE ROLE weak LOGIN")
			o.t.Cleanup(func() { o.pg.Exec(context.Background(), "postgres", "DROP ROLE weak") })
			o.cfg.DSN = o.pg.DSNVia(o.pg.Addr(), url.User("weak"), o.cfg.Slot)
		}, ErrDenied, `ALTER ROLE "weak" REPLICATION`},
		{"names that need quotes", func(o *outbox) {
			o.exec(`CREATE SCHEMA "My-App"; CREATE TABLE "My-App"."OutBox Événements" (LIKE outbox_events)`)
			o.cfg.Tables = []decoder.Table{{Schema: "My-App", Name: "OutBox Événements"}}
			o.cfg.Publication = `My "Pub", it's 1`
			if _, err := CreatePublication(o.t.Context(), o.conn, o.cfg.Publication, o.cfg.Tables); err != nil {
				o.t.Fatal(err)
			}
		}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOutbox(t, pg)
			tt.prepare(o)
			srv, err := o.preflight()
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err == nil {
				if len(srv.Tables) != 1 || srv.Tables[0].OID == 0 || srv.SystemID == "" || srv.Slot.Name != o.cfg.Slot {
					t.Errorf("got %+v", srv)
				}
				return
			}
			if s := err.Error(); !strings.Contains(s, tt.says) || strings.Contains(s, "\n") {
				t.Errorf("got %q, want one line with %q", s, tt.says)
			}
		})
	}
}

func TestPreflightKnowsColumnListsAndRowFilters(t *testing.T) {
	pg := harness.SharedPostgres(t)
	if pg.Version() < 15 {
		return // there are none
	}
	o := newOutbox(t, pg)
	o.exec(`ALTER PUBLICATION outbox SET TABLE outbox_events (id, aggregate_type, aggregate_id, event_type, payload) WHERE (event_type <> 'Draft')`)
	srv, err := o.preflight()
	if err != nil {
		t.Fatal(err)
	}
	warnings := strings.Join(srv.Warnings, "\n")
	for _, want := range []string{"Draft", `leaves out column "metadata"`, `leaves out column "created_at"`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("%q is not in the warnings:\n%s", want, warnings)
		}
	}
	o.exec(`ALTER PUBLICATION outbox SET TABLE outbox_events (id, aggregate_type, aggregate_id, event_type)`)
	if _, err := o.preflight(); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "leaves out column payload") {
		t.Errorf("got %v, want ErrSetup", err)
	}
}

func TestPreflightWarnsOfIDsThatCanBeNull(t *testing.T) {
	o := newOutbox(t, harness.SharedPostgres(t))
	o.exec(`CREATE TABLE store ("Nr" int, version int NOT NULL, kind text, body text); ALTER PUBLICATION outbox ADD TABLE store`)
	o.cfg.Tables = append(o.cfg.Tables, decoder.Table{Schema: "public", Name: "store", Mapping: decoder.Mapping{
		IDColumns: []string{"Nr", "version"}, AggregateID: "Nr", EventType: "kind", Payload: "body",
	}})
	srv, err := o.preflight()
	if err != nil {
		t.Fatal(err)
	}
	want := `column "Nr" of table "public"."store" can be NULL, and a row in which it is cannot be published; as its owner: ALTER TABLE "public"."store" ALTER COLUMN "Nr" SET NOT NULL`
	if len(srv.Warnings) != 1 || srv.Warnings[0] != want {
		t.Errorf("got the warnings %q, want %q", srv.Warnings, want)
	}
}

func TestPreflightWantsLogicalWAL(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"wal_level": "replica"}})
	o := newDatabase(t, pg)
	if _, err := o.preflight(); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "ALTER SYSTEM SET wal_level = logical") {
		t.Errorf("got %v, want ErrSetup with the remedy", err)
	}
}

func TestPreflightNamesWhoHasTheWalsenders(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{"max_wal_senders": "1"}})
	o := newOutbox(t, pg)
	o.cfg.ApplicationName = "the-other"
	o.open()
	if _, err := o.preflight(); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "max_wal_senders = 1: the-other (pid ") {
		t.Errorf("got %v, want the limit and the holder", err)
	}
}

func TestALostSlotIsAGap(t *testing.T) {
	pg := harness.NewPostgres(t, harness.PostgresConfig{Settings: map[string]string{
		"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB",
	}})
	o := newOutbox(t, pg)
	for range 3 {
		o.exec("SELECT pg_switch_wal()")
		o.exec("CREATE TABLE IF NOT EXISTS noise (x text); INSERT INTO noise VALUES ('x')")
	}
	o.exec("CHECKPOINT")
	if _, err := o.preflight(); !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), "is lost") {
		t.Errorf("got %v, want ErrGap", err)
	}
}

func (o *outbox) dropSlot() {
	o.t.Helper()
	if err := DropSlot(o.t.Context(), o.conn, o.cfg.Slot); err != nil {
		o.t.Fatal(err)
	}
}

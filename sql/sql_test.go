package sql

import (
	"strings"
	"testing"
)

func TestNamesAreQuotedInFull(t *testing.T) {
	o := Outbox{Schema: "My-App", Name: `OutBox "Événements"`, Role: "relay-1", Database: "Shop"}
	for name, tt := range map[string]struct{ got, want string }{
		"lean outbox":  {o.Table(Form{}), `CREATE TABLE IF NOT EXISTS "My-App"."OutBox ""Événements""" (`},
		"full outbox":  {o.Table(Form{Full: true}), `CREATE TABLE IF NOT EXISTS "My-App"."OutBox ""Événements""" (`},
		"record":       {o.Checkpoint(), `CREATE TABLE IF NOT EXISTS "My-App"."outbox_cdc_checkpoint" (`},
		"dead letters": {o.DeadLetters(), `CREATE TABLE IF NOT EXISTS "My-App"."outbox_dead_letters" (`},
		"database":     {o.Grants(), `ON DATABASE "Shop" TO "relay-1"`},
		"schema":       {o.Grants(), `USAGE ON SCHEMA "My-App" TO "relay-1"`},
		"tables":       {o.Grants(), `ON "My-App"."outbox_cdc_checkpoint", "My-App"."outbox_dead_letters" TO "relay-1"`},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("%s: %s is not in\n%s", name, tt.want, tt.got)
		}
	}
}

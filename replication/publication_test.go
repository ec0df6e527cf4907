package replication

import (
	"slices"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

func TestPublicationStatementsAddAndNeverTakeAway(t *testing.T) {
	orders, events := decoder.Table{Schema: "My-App", Name: "OutBox Événements"}, decoder.Table{Schema: "public", Name: "events"}
	holds := []PublishedTable{{Schema: "My-App", Name: "OutBox Événements"}, {Schema: "public", Name: "unrelated"}}
	tests := []struct {
		name    string
		p       Publication
		missing bool
		want    []string
	}{
		{"missing", Publication{}, true, []string{
			`CREATE PUBLICATION "p ""1""" FOR TABLE "My-App"."OutBox Événements", "public"."events" WITH (publish = 'insert', publish_via_partition_root = true)`}},
		{"lacks a table", Publication{Insert: true, ViaRoot: true, Tables: holds}, false, []string{
			`ALTER PUBLICATION "p ""1""" ADD TABLE "public"."events"`}},
		{"does not publish inserts", Publication{AllTables: true, Update: true, Truncate: true}, false, []string{
			`ALTER PUBLICATION "p ""1""" SET (publish = 'insert, update, truncate')`}},
		{"has everything and more", Publication{Insert: true, Update: true, Delete: true, Tables: append(holds, PublishedTable{Schema: "public", Name: "events"})}, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := publicationStatements(tt.p, tt.missing, `p "1"`, []decoder.Table{orders, events})
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

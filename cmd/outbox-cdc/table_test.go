package main

import (
	"reflect"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/decoder"
)

func TestParseTable(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       decoder.Table
		fails      bool
	}{
		{name: "schema and table", text: "app.events", want: decoder.Table{Schema: "app", Name: "events"}},
		{name: "table alone", text: "events", want: decoder.Table{Schema: "public", Name: "events"}},
		{name: "upper case without quotes", text: "App.Events", want: decoder.Table{Schema: "app", Name: "events"}},
		{name: "quoted parts", text: `"My-App"."OutBox Événements"`, want: decoder.Table{Schema: "My-App", Name: "OutBox Événements"}},
		{name: "only the letters of ASCII are folded", text: "ÉVÉNEMENTS", want: decoder.Table{Schema: "public", Name: "ÉvÉnements"}},
		{name: "one part quoted", text: `app."Events"`, want: decoder.Table{Schema: "app", Name: "Events"}},
		{name: "a dot in quotes", text: `"a.b"."c.d"`, want: decoder.Table{Schema: "a.b", Name: "c.d"}},
		{name: "a quote in quotes", text: `"a""b"."c"`, want: decoder.Table{Schema: `a"b`, Name: "c"}},
		{name: "digits and dollar", text: "_a1$.b2", want: decoder.Table{Schema: "_a1$", Name: "b2"}},
		{name: "blanks around", text: "  app.events ", want: decoder.Table{Schema: "app", Name: "events"}},
		{name: "empty", text: "", fails: true},
		{name: "empty table", text: "app.", fails: true},
		{name: "empty schema", text: ".events", fails: true},
		{name: "empty quotes", text: `""."events"`, fails: true},
		{name: "three parts", text: "db.app.events", fails: true},
		{name: "open quote", text: `"app.events`, fails: true},
		{name: "text behind a quote", text: `"app"events`, fails: true},
		{name: "text between quote and dot", text: `"app"x."events"`, fails: true},
		{name: "a blank without quotes", text: "out box", fails: true},
		{name: "a leading digit", text: "1app.events", fails: true},
		{name: "a statement", text: "events; DROP TABLE x", fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseTable(tc.text)
			if (err != nil) != tc.fails || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

func TestParseTables(t *testing.T) {
	got, err := parseTables(`a, App.B ,"x,y"."z""," , "é"`)
	want := []decoder.Table{
		{Schema: "public", Name: "a"}, {Schema: "app", Name: "b"}, {Schema: "x,y", Name: `z",`}, {Schema: "public", Name: "é"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, text := range []string{"", ",", "a,", "a,,b", `a,"b`, `"a,b`, "a;b"} {
		if got, err := parseTables(text); err == nil {
			t.Errorf("%q: got %+v, want a fault", text, got)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(`"My-App"."OutBox"`)
	f.Add(`a""b`)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := parseTable(text)
		if err != nil {
			return
		}
		again, err := parseTable(table.String())
		if err != nil || !reflect.DeepEqual(again, table) {
			t.Errorf("%q gives %+v, and that written as SQL %+v, %v", text, table, again, err)
		}
	})
}

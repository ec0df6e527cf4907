package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/decoder"
	"github.com/outbox-cdc/outbox-cdc/sql"
)

// printTables are the tables that a command reads with the given arguments.
func printTables(t *testing.T, args ...string) (got []printedTable, said string) {
	t.Helper()
	o := execute(t, append([]string{"schema", "print", "-o", "json"}, args...)...)
	if o.code != codeOK {
		return nil, o.err
	}
	return parse[printedSchema](t, o.out).Tables, o.err
}

func TestTables(t *testing.T) {
	for _, tc := range []struct {
		name, file, variable string
		args                 []string
		want                 string // tables with their presets
	}{
		{name: "the default", want: `"public"."outbox_events" outbox_events`},
		{name: "the table of a preset", args: []string{"--preset", "outbox_messages"}, want: `"public"."outbox_messages" outbox_messages`},
		{name: "the table of Debezium", file: "preset: debezium", want: `"public"."outboxevent" debezium`},
		{name: "the table of an event store", file: "preset: event_store", want: `"public"."event_store" event_store`},
		{name: "several of a preset", file: "preset: event_store\ntable: [a, b]", want: `"public"."a" event_store, "public"."b" event_store`},
		{name: "a list", file: "tables:\n- {name: a.x, preset: debezium}\n- name: b.x\n- '\"My-App\".\"É, x\"'",
			want: `"a"."x" debezium, "b"."x" outbox_events, "My-App"."É, x" outbox_events`},
		{name: "a preset for those that name none", file: "preset: debezium\ntables: [a, {name: b, preset: event_store}]",
			want: `"public"."a" debezium, "public"."b" event_store`},
		{name: "a list in the environment", variable: "[{name: a}]", want: `"public"."a" outbox_events`},
		{name: "a list as an argument", args: []string{"--tables", `[{"name": "a", "preset": "debezium"}]`}, want: `"public"."a" debezium`},
		{name: "an alias", file: "tables: [&t {name: a, preset: &p debezium}, {name: b, preset: *p}]", want: `"public"."a" debezium, "public"."b" debezium`},
		{name: "a list instead of the file's table", file: "table: a", variable: "[b]", want: `"public"."b" outbox_events`},
		{name: "a table instead of the file's list", file: "tables: [a]", args: []string{"--table", "b"}, want: `"public"."b" outbox_events`},
		{name: "an argument instead of the file's list", file: "tables: [a]", args: []string{"--tables", "[c, d]"}, want: `"public"."c" outbox_events, "public"."d" outbox_events`},
		{name: "nothing", file: "tables:\ntable: a", want: `"public"."a" outbox_events`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("OUTBOX_CDC_TABLES", tc.variable)
			tables, said := printTables(t, append(tc.args, "--config", write(t, "relay.yaml", tc.file))...)
			var got []string
			for _, table := range tables {
				got = append(got, table.Table+" "+table.Preset)
			}
			if got := strings.Join(got, ", "); got != tc.want || said != "" {
				t.Errorf("got %s, and it said %q; want %s", got, said, tc.want)
			}
		})
	}
}

// Behaviours: C5
func TestFaultsOfTables(t *testing.T) {
	const presets = "outbox_events, outbox_messages, debezium or event_store"
	for _, tc := range []struct {
		name, content string
		want          []string // FILE is the path
	}{
		{"no list", "tables: a", []string{`FILE:1: tables must be a list such as [{name: billing.outbox, preset: debezium}], got a single value`}},
		{"an empty list", "tables: []", []string{`FILE:1: tables must name at least one table, got an empty list`}},
		{"a list in the list", "tables:\n- a\n- [b]", []string{`FILE:3: an entry of tables must be a name, or a mapping with a name, got a list`}},
		{"nothing in the list", "tables:\n- a\n-\n", []string{`FILE:3: an entry of tables must be a name, or a mapping with a name, got nothing`}},
		{"no name", "tables:\n- preset: debezium", []string{`FILE:2: an entry of tables needs a name, such as name: billing.outbox`}},
		{"a wrong key", "tables:\n- name: a\n  prset: x\n", []string{`FILE:3: an entry of tables has no key "prset" (did you mean preset?); it may have name, preset, columns, renamed, topic, key, partition_by`}},
		{"a key twice", "tables:\n- name: a\n  preset: debezium\n  preset: debezium\n", []string{`FILE:4: key "preset" stands twice in an entry of tables`}},
		{"a wrong name", "tables:\n- a\n- b;c\n", []string{`FILE:3: name must be a table as in SQL, such as public.outbox_events or "My-App"."OutBox", got "b;c"`}},
		{"an unknown preset", "tables:\n- {name: a, preset: debezum}\n", []string{`FILE:2: preset of table "public"."a" must be ` + presets + `, got "debezum" (did you mean debezium?)`}},
		{"an unknown preset for all", "preset: debezum\n", []string{`--preset must be ` + presets + `, got "debezum" (FILE:1)`}},
		{"a preset that is a list", "tables:\n- {name: a, preset: [debezium]}\n", []string{`FILE:2: key "preset" of a table must be a single value, got a list`}},
		{"a table twice", "tables:\n- a\n- b\n- {name: public.A, preset: debezium}\n", []string{`FILE:4: table "public"."a" stands in FILE:2 already; leave one of them out`}},
		{"columns that are none", "tables:\n- name: a\n  columns: [id]\n", []string{`FILE:3: columns must be a mapping such as {payload: body}, got a list`}},
		{"an unknown field", "tables:\n- name: a\n  columns:\n    paylod: body\n", []string{
			`FILE:4: columns has no key "paylod" (did you mean payload?); it may have id, aggregate_type, aggregate_id, event_type, payload, metadata, created_at`}},
		{"several columns for a payload", "tables:\n- name: a\n  columns: {payload: [x, y]}\n", []string{`FILE:3: column payload must be the name of a column, got a list`}},
		{"a mapping for an id", "tables:\n- name: a\n  columns: {id: {x: y}}\n", []string{`FILE:3: column id must be the name of a column or a list of them, got a mapping`}},
		{"an empty name of a column", "tables:\n- name: a\n  columns: {payload: ''}\n", []string{`FILE:3: column payload must be the name of a column, of at most 63 bytes, got ""`}},
		{"a payload that is metadata too", "tables:\n- name: a\n  columns: {payload: body, metadata: body}\n", []string{
			`FILE:2: columns of table "public"."a": column "body" cannot be both payload and metadata`}},
		{"a payload that the preset has for the aggregate", "tables:\n- {name: a, preset: debezium, columns: {payload: aggregateid}}\n", []string{
			`FILE:2: columns of table "public"."a": column "aggregateid" cannot be both aggregate_id and payload`}},
		{"a payload that is in the id", "tables:\n- {name: a, preset: event_store, columns: {payload: stream_version}}\n", []string{
			`FILE:2: columns of table "public"."a": column "stream_version" cannot be both id and payload`}},
		{"an id of the same column twice", "tables:\n- {name: a, columns: {id: [x, y, x]}}\n", []string{`FILE:2: columns of table "public"."a": column "x" stands twice in id`}},
		{"new names that are none", "tables:\n- name: a\n  renamed: [x, y]\n", []string{`FILE:3: renamed must be a mapping of old names to new ones such as {payload: body}, got a list`}},
		{"a new name that is the old one", "tables:\n- {name: a, renamed: {payload: payload}}\n", []string{
			`FILE:2: renamed must give an old name of a column and a new one such as {payload: body}, got "payload" and "payload"`}},
		{"a new name twice", "tables:\n- {name: a, renamed: {payload: x, payload: y}}\n", []string{`FILE:2: column "payload" stands twice in renamed`}},
		{"a new name of what nobody asks for", "tables:\n- {name: a, preset: event_store, renamed: {payload: x}}\n", []string{
			`FILE:2: table "public"."a": column "payload" of renamed serves nothing; leave it out, or correct it`}},
		{"both", "table: a\ntables: [b]\n", []string{`--table and --tables must not be given both; list every table under one of them (--table: FILE:1; --tables: FILE:2)`}},
		{"everything at once", "tables:\n- nmae: a\n- {name: b, preset: x}\nslto: a\n", []string{
			`FILE:2: an entry of tables has no key "nmae" (did you mean name?); it may have name, preset, columns, renamed, topic, key, partition_by`,
			`FILE:2: an entry of tables needs a name, such as name: billing.outbox`,
			`FILE:4: unknown key "slto" (did you mean slot?)`,
			`FILE:3: preset of table "public"."b" must be ` + presets + `, got "x"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, "relay.yaml", tc.content)
			var want []string
			for _, line := range tc.want {
				want = append(want, strings.ReplaceAll(line, "FILE", path))
			}
			for _, command := range []string{"schema print", "slot show"} {
				wantFaults(t, append(strings.Fields(command), "--config", path), want...)
			}
		})
	}
	wantFaults(t, []string{"schema", "print", "--tables", "[a"}, "--tables: tables must be a list such as [{name: billing.outbox, preset: debezium}], "+
		"and this is not YAML: did not find expected ',' or ']'")
	wantFaults(t, []string{"schema", "print", "--tables", "[{name: a}, {name: a}]"}, `--tables: table "public"."a" stands in --tables already; leave one of them out`)
	t.Setenv("OUTBOX_CDC_TABLES", "[{nam: a}]")
	wantFaults(t, []string{"schema", "print"},
		`--tables: an entry of tables has no key "nam" (did you mean name?); it may have name, preset, columns, renamed, topic, key, partition_by (environment variable OUTBOX_CDC_TABLES)`,
		`--tables: an entry of tables needs a name, such as name: billing.outbox (environment variable OUTBOX_CDC_TABLES)`)
}

func TestMappings(t *testing.T) {
	preset := func(name string, change func(*decoder.Mapping)) decoder.Mapping {
		m, ok := decoder.Preset(name)
		if !ok {
			t.Fatalf("there is no preset %s", name)
		}
		change(&m)
		return m
	}
	for _, tc := range []struct {
		name, entry string
		want        decoder.Mapping
	}{
		{"every column", "{name: a, columns: {id: a, aggregate_type: b, aggregate_id: c, event_type: d, payload: e, metadata: f, created_at: G}}",
			decoder.Mapping{ID: "a", AggregateType: "b", AggregateID: "c", EventType: "d", Payload: "e", Metadata: "f", CreatedAt: "G"}},
		{"an id of several", "{name: a, columns: {id: [x, Y]}}", decoder.Mapping{IDColumns: []string{"x", "Y"}}},
		{"an id of a list of one", "{name: a, columns: {id: [x]}}", decoder.Mapping{ID: "x"}},
		{"one beside the preset's", "{name: a, preset: debezium, columns: {metadata: tracing}}",
			preset("debezium", func(m *decoder.Mapping) { m.Metadata = "tracing" })},
		{"an id instead of that of an event store", "{name: a, preset: event_store, columns: {id: id}}",
			preset("event_store", func(m *decoder.Mapping) { m.ID, m.IDColumns = "id", nil })},
		{"an id that is the aggregate's", "{name: a, columns: {id: x, aggregate_id: x, event_type: t, aggregate_type: t}}",
			decoder.Mapping{ID: "x", AggregateID: "x", EventType: "t", AggregateType: "t"}},
		{"new names", "{name: a, preset: event_store, renamed: {stream_version: revision, metadata: context}}",
			preset("event_store", func(m *decoder.Mapping) {
				m.Renamed = map[string]string{"stream_version": "revision", "metadata": "context"}
			})},
		{"nothing", "{name: a, columns: {payload: , metadata: ~}}", decoder.Mapping{}},
		{"a routing", "{name: a, topic: 'a.{table}', key: 'column:é', partition_by: 'number:shard'}", decoder.Mapping{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := parseTableList("["+tc.entry+"]", func(_ int, format string, args ...any) { t.Errorf(format, args...) })
			again := parseTableList(tablesText(list), func(_ int, format string, args ...any) { t.Errorf(format, args...) })
			if !reflect.DeepEqual(again, list) {
				t.Errorf("%+v is %+v when it was written and read again", list, again)
			}
			got, err := list[0].outbox(decoder.PresetOutboxEvents)
			if err != nil || !reflect.DeepEqual(got.Mapping, tc.want) {
				t.Errorf("got %+v, %v, want %+v", got.Mapping, err, tc.want)
			}
		})
	}
}

// A table has the routing of its entry, whose faults name the line.
func TestRoutingOfTables(t *testing.T) {
	path := write(t, "relay.yaml", "brokers: k:9092\ntables:\n- a\n- {name: b.x, topic: orders, key: id}\n- name: c\n  topic: a b\n  partition_by: tenant\n")
	wantFaults(t, []string{"config", "validate", "--dsn", "host=db", "--config", path},
		`key in `+path+`:4 must be one of event_id, aggregate_id, column:NAME, got "id"`,
		`topic in `+path+`:5 must hold letters, digits, dot, underscore, hyphen and {placeholders}, got "a b"`,
		`partition_by in `+path+`:5 must be one of aggregate_id, key, none, column:NAME, number:NAME, got "tenant"`)
}

// A table that was made of a preset has the columns of its mapping.
func TestPresetsHaveTables(t *testing.T) {
	for _, preset := range decoder.PresetNames() {
		for _, form := range []sql.Form{{}, {Full: true, ID: "text"}, {ID: "bigint", Partitions: 3}} {
			form.Preset = preset
			ddl := sql.Outbox{Schema: "public", Name: "t"}.Table(form)
			mapping, _ := decoder.Preset(preset)
			var columns []string
			for line := range strings.Lines(ddl) {
				if strings.HasPrefix(line, "    ") {
					columns = append(columns, strings.Fields(line)[0])
				}
			}
			if missing := (decoder.Table{Mapping: mapping}).MissingColumns(columns); len(missing) > 0 {
				t.Errorf("%+v has no column %v:\n%s", form, missing, ddl)
			}
			if options := sql.Has(preset); options == (sql.Options{}) {
				t.Errorf("preset %s has no option", preset)
			}
			if got := strings.Count(ddl, "PARTITION OF"); got > 0 != (sql.Has(preset).Partitions && form.Partitions > 0) {
				t.Errorf("%+v has %d partitions", form, got)
			}
		}
		if _, err := parseTable(presetTable(preset)); err != nil {
			t.Errorf("the table of preset %s: %v", preset, err)
		}
	}
}

func TestSchemaPrint(t *testing.T) {
	got := execute(t, "schema", "print", "--tables", "[{name: My.store, preset: event_store}, {name: x, columns: {id: key}}]", "--partitions", "2")
	for _, part := range []string{
		`CREATE TABLE IF NOT EXISTS "my"."store" (`, `"my"."store_p1" PARTITION OF "my"."store" FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
		`-- Table "public"."x" has columns of its own.`, `"my"."outbox_cdc_checkpoint"`, `"my"."outbox_dead_letters"`,
	} {
		if got.code != codeOK || !strings.Contains(got.out, part) {
			t.Errorf("got code %d, and %s is not in\n%s%s", got.code, part, got.out, got.err)
		}
	}
	for args, want := range map[string]string{
		"--full --preset debezium":               "--full is for tables of preset outbox_events or outbox_messages, and there is none; leave it out, or correct --preset",
		"--id-type text --preset event_store":    "--id-type is for tables of preset outbox_events, outbox_messages or debezium, and there is none; leave it out, or correct --preset",
		"--partitions 3":                         "--partitions is for tables of preset event_store, and there is none; leave it out, or correct --preset",
		"--id-type serial":                       `--id-type must be uuid or text or bigint, got "serial"`,
		"--preset event_store --partitions 1025": `--partitions must be a number from 0 to 1024, got "1025"`,
	} {
		wantFaults(t, append([]string{"schema", "print"}, strings.Fields(args)...), want)
	}
}

func FuzzTables(f *testing.F) {
	f.Add("[{name: a, preset: debezium, columns: {id: [x, y]}}]")
	f.Add(`["a", {"name": "\"B\".c", "columns": {"payload": "é\n"}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		faults := 0
		list := parseTableList(text, func(_ int, format string, args ...any) {
			if faults++; strings.Contains(fmt.Sprintf(format, args...), "\n") {
				t.Errorf("%q gives a fault of several lines: %s", text, fmt.Sprintf(format, args...))
			}
		})
		if faults > 0 {
			return
		}
		again := parseTableList(tablesText(list), func(_ int, format string, args ...any) { t.Errorf(format, args...) })
		for i := range again {
			again[i].line = list[i].line
		}
		if !reflect.DeepEqual(again, list) {
			t.Errorf("%q gives %+v, and that written again %+v", text, list, again)
		}
	})
}

//go:build linux || darwin

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// comparison is one line of the table in docs/debezium.md: rows of an outbox
// table, what the router is told to make of them, what outbox-cdc is told, and
// in what the records differ.
type comparison struct {
	name string
	// router are options of the outbox event router, without the name of the
	// transformation in front; connector those of the connector around it.
	router, connector map[string]string
	// relay are flags of outbox-cdc; mapping are the columns of the table, as
	// in the list of tables of its configuration file, instead of the preset.
	relay   []string
	mapping string
	// id is the type of the id column, uuid if empty; columns are the others.
	id, columns string
	// rows are what is inserted behind the id, each in a transaction of its own
	// unless together is set. behind is executed after them; %s is the table.
	rows     []string
	together bool
	behind   string
	// tables is how many tables of the kind there are, 1 if 0; the rows go to
	// them in turn.
	tables int
	// publishes is what both publications publish, insert if empty.
	publishes string
	// topics are those that the records go to; nil is outbox.event.order.
	topics []string
	// shared has both sides write to the same topics.
	shared bool
	// timed has the timestamps of the records compared too.
	timed bool
	// shown is the index of the row that the page shows.
	shown int
	// shownID is the id that the shown row has for both sides, if that is not
	// the one of the id column.
	shownID string
	// differs is what is known to differ, nothing if empty, and why the reason.
	differs parts
	why     string
}

// Columns of Debezium's own outbox table, behind the id.
const columns = "aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb"

// base is the router's configuration that the profile debezium stands for. The
// event type is no header by default, but consumers that tell events apart have
// it placed there.
var base = map[string]string{"table.fields.additional.placement": "type:header:eventType"}

// baseFlags is what makes outbox-cdc publish as the router does.
var baseFlags = []string{"--headers", "debezium", "--key", "aggregate_id", "--position-headers=false"}

// partitions is how many each topic has.
const partitions = 8

// section is a part of the page.
type section struct {
	title string
	cases []comparison
}

// sections are all lines of the table, in its order.
func sections() []section {
	return []section{
		{"Payload", payloadCases()},
		{"Id, key and time", identityCases()},
		{"Topic and partition", routingCases()},
		{"Headers and tracing", headerCases()},
		{"Tables and changes", tableCases()},
		{"Rows without a record", refusalCases()},
	}
}

// comparisons are those of all sections.
func comparisons() []comparison {
	var all []comparison
	for _, s := range sections() {
		all = append(all, s.cases...)
	}
	return all
}

// cutOverCase stands for the way from one to the other instead of a comparison.
const cutOverCase = "cut-over"

// choose returns the comparisons to run: all, or the one with a name.
func choose(name string) ([]comparison, error) {
	all := comparisons()
	switch i := slices.IndexFunc(all, func(c comparison) bool { return c.name == name }); {
	case name == "":
		return all, nil
	case name == cutOverCase:
		return nil, nil
	case i < 0:
		return nil, fmt.Errorf("there is no case %q", name)
	default:
		return all[i : i+1], nil
	}
}

// schema is where the tables of the comparison are.
func (c comparison) schema() string { return strings.ReplaceAll(c.name, "-", "_") }

// tableNames are the tables, with their schema.
func (c comparison) tableNames() []string {
	names := []string{c.schema() + ".outbox"}
	for i := 2; i <= c.tables; i++ {
		names = append(names, fmt.Sprintf("%s.outbox_%d", c.schema(), i))
	}
	return names
}

// topicNames are the topics without the side's prefix.
func (c comparison) topicNames() []string {
	if c.topics == nil {
		return []string{"outbox.event.order"}
	}
	return c.topics
}

// idOf is the id of the row with an index, as a header has it.
func (c comparison) idOf(row int) string {
	switch c.id {
	case "bigint":
		return fmt.Sprint(row + 1)
	case "text":
		return fmt.Sprintf("event-%d", row+1)
	}
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", row+1)
}

// inserts are the statements that insert the rows.
func (c comparison) inserts() []string {
	tables := c.tableNames()
	var statements []string
	for i, row := range c.rows {
		statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES ('%s', %s)", tables[i%len(tables)], c.idOf(i), row))
	}
	return statements
}

// routerOptions is the router's whole configuration. An option whose value is
// empty is left out.
func (c comparison) routerOptions() map[string]string {
	all := over(base, c.router)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// over returns the settings of below, with those of above in front of them.
func over(below, above map[string]string) map[string]string {
	all := make(map[string]string)
	maps.Copy(all, below)
	maps.Copy(all, above)
	return all
}

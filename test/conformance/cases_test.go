//go:build linux || darwin

package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestCases checks what the cases say of themselves.
func TestCases(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range comparisons() {
		if seen[c.name] {
			t.Errorf("%s is there twice", c.name)
		}
		seen[c.name] = true
		if c.shown >= len(c.rows) {
			t.Errorf("%s shows row %d of %d", c.name, c.shown, len(c.rows))
		}
		if (len(c.differs) == 0) != (c.why == "") {
			t.Errorf("%s differs in %s, and the reason is %q", c.name, c.differs, c.why)
		}
		if !slices.IsSortedFunc(c.differs, func(a, b part) int { return slices.Index(allParts, a) - slices.Index(allParts, b) }) {
			t.Errorf("%s names %s in another order than a run", c.name, c.differs)
		}
		if got := cells(line(c, "a record")); len(got) != 6 || got[4] != "a record" {
			t.Errorf("the line of %s is read as %q", c.name, got)
		}
	}
}

func TestChoose(t *testing.T) {
	for name, want := range map[string]int{"": len(comparisons()), cutOverCase: 0, "jsonb": 1} {
		if got, err := choose(name); err != nil || len(got) != want {
			t.Errorf("%q: %d cases (%v), want %d", name, len(got), err, want)
		}
	}
	if _, err := choose("json-b"); err == nil {
		t.Error("a case that does not exist was found")
	}
}

// TestTold checks what each side is told in a case.
func TestTold(t *testing.T) {
	c := comparison{
		name: "a-case", tables: 2, id: "bigint", rows: []string{"'a'", "'b'", "'c'"}, relay: []string{"--header", "tenant", "--topic", "shop"},
		router: map[string]string{"table.fields.additional.placement": "", "route.by.field": "type"},
	}
	if got, want := c.inserts(), []string{
		"INSERT INTO a_case.outbox VALUES ('1', 'a')", "INSERT INTO a_case.outbox_2 VALUES ('2', 'b')", "INSERT INTO a_case.outbox VALUES ('3', 'c')",
	}; !slices.Equal(got, want) {
		t.Errorf("inserts %q, want %q", got, want)
	}
	for range 2 { // the case stays what it is
		if got, want := c.relayFlags(), []string{"--header", "tenant", "--topic", "outbox-cdc.a-case.shop"}; !slices.Equal(got, want) {
			t.Errorf("flags %q, want %q", got, want)
		}
	}
	if got := (comparison{name: "other"}).relayFlags(); strings.Join(got, " ") != "--topic outbox-cdc.other.outbox.event.{aggregate_type}" {
		t.Errorf("flags %q", got)
	}
	if got, want := c.routerOptions(), map[string]string{"route.by.field": "type"}; !reflect.DeepEqual(got, want) {
		t.Errorf("options %v, want %v", got, want)
	}
	if got := (comparison{}).routerOptions(); !reflect.DeepEqual(got, base) {
		t.Errorf("options %v, want %v", got, base)
	}
}

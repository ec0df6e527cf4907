//go:build linux || darwin

package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseOrders(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       change
	}{
		{"all fields", `{"order": 7, "event": "OrderPaid", "rollback": true, "total": 1.10}`,
			change{order: "7", event: "OrderPaid", rollback: true, payload: `{"order":7,"total":1.10}`}},
		{"the order alone", `{"order": "A-7"}`, change{order: "A-7", event: "OrderPlaced", payload: `{"order":"A-7"}`}},
		{"a number as text", `{"order": "7"}`, change{order: "7", event: "OrderPlaced", payload: `{"order":"7"}`}},
		{"a number that no float holds", `{"order": 9007199254740993}`,
			change{order: "9007199254740993", event: "OrderPlaced", payload: `{"order":9007199254740993}`}},
		{"blanks around it", "  \t{\"order\": \"ä\"} \r\n", change{order: "ä", event: "OrderPlaced", payload: `{"order":"ä"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.source = "f:2"
			got, err := parseOrders("f", "\n"+tt.line+"\n\n")
			if err != nil || !reflect.DeepEqual(got, []change{tt.want}) {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseOrdersNamesTheLine(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"no JSON", `order 7`, "not a JSON object"},
		{"cut off", `{"order": 7`, "not a JSON object"},
		{"two objects", `{"order": 7} {"order": 8}`, "not a JSON object"},
		{"a list", `[7]`, "not a JSON object"},
		{"null", `null`, "not a JSON object"},
		{"no order", `{"total": 7}`, `"order" is missing`},
		{"empty order", `{"order": ""}`, `"order" must be a number or a text that is not empty, got ""`},
		{"null order", `{"order": null}`, `"order" must be a number or a text that is not empty, got null`},
		{"order of another type", `{"order": [7]}`, `"order" must be a number or a text that is not empty, got [7]`},
		{"event of another type", `{"order": 7, "event": 1}`, `"event" must be a text that is not empty, got 1`},
		{"empty event", `{"order": 7, "event": ""}`, `"event" must be a text that is not empty, got ""`},
		{"rollback of another type", `{"order": 7, "rollback": "yes"}`, `"rollback" must be true or false, got "yes"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseOrders("f.jsonl", `{"order": 1}`+"\n"+tt.line+"\n"+`{"order": 2}`)
			if err == nil || !strings.HasPrefix(err.Error(), "f.jsonl:2: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want f.jsonl:2: ... %s", err, tt.want)
			}
		})
	}
	if _, err := parseOrders("f.jsonl", "\n\n"); err == nil || !strings.Contains(err.Error(), "f.jsonl holds no orders") {
		t.Errorf("empty file: got %v", err)
	}
}

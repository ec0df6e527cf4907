//go:build linux || darwin

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// change is what the service does to an order in one transaction.
type change struct {
	source   string // file:line
	order    string // the aggregate's id
	event    string // the event's type
	rollback bool   // the transaction is given up in the end
	payload  string // JSON: the line without event and rollback
}

const defaultEvent = "OrderPlaced"

// parseOrders reads lines such as
//
//	{"order": 101, "event": "OrderPaid", "total": 42.10, "rollback": true}
//
// Only order is required; what else a line holds goes into the payload. Every
// fault names its line.
func parseOrders(file, text string) ([]change, error) {
	var changes []change
	var faults []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		source := fmt.Sprintf("%s:%d", file, number)
		c, err := parseOrder(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", source, err))
			continue
		}
		c.source = source
		changes = append(changes, c)
	}
	if len(changes) == 0 && len(faults) == 0 {
		return nil, fmt.Errorf("%s holds no orders; each line is one, such as {\"order\": 101, \"total\": 42.10}", file)
	}
	return changes, errors.Join(faults...)
}

func parseOrder(line string) (change, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(line), &fields); err != nil || fields == nil {
		return change{}, fmt.Errorf("not a JSON object, which an order is, one a line (%v)", err)
	}
	c := change{event: defaultEvent}
	var err error
	if c.order, err = orderID(fields["order"]); err != nil {
		return change{}, err
	}
	if event, given := fields["event"]; given {
		if err := json.Unmarshal(event, &c.event); err != nil || c.event == "" {
			return change{}, fmt.Errorf(`"event" must be a text that is not empty, got %s`, event)
		}
	}
	if rollback, given := fields["rollback"]; given {
		if err := json.Unmarshal(rollback, &c.rollback); err != nil {
			return change{}, fmt.Errorf(`"rollback" must be true or false, got %s`, rollback)
		}
	}
	delete(fields, "event")
	delete(fields, "rollback")
	payload, err := json.Marshal(fields)
	c.payload = string(payload)
	return c, err
}

// orderID takes a text or a number.
func orderID(value json.RawMessage) (string, error) {
	if value == nil {
		return "", errors.New(`"order" is missing`)
	}
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" && string(value) != "null" {
		return text, nil
	}
	var number json.Number
	if value[0] != '"' && json.Unmarshal(value, &number) == nil && number != "" {
		return number.String(), nil
	}
	return "", fmt.Errorf(`"order" must be a number or a text that is not empty, got %s`, value)
}

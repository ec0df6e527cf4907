package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// print writes data as -o asks: value as JSON, or what text writes.
func (p *program) print(c *cli.Context, value any, text func()) error {
	if c.String("o") != "json" {
		text()
		return nil
	}
	enc := json.NewEncoder(p.out)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// errDeclined ends a command that its user did not confirm.
var errDeclined = errors.New("nothing was changed")

// confirm asks whether to go on with something that cannot be taken back. Away
// from a terminal there is nobody to ask, so --yes has to be given.
func (p *program) confirm(c *cli.Context, what string) error {
	if c.Bool("yes") {
		return nil
	}
	if p.in == nil || !isTerminal(p.in) {
		return usage("%s; give --yes to do it without being asked", what)
	}
	fmt.Fprintf(p.err, "%s. Go on? [y/N] ", what)
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	if err != nil {
		return usage("%s; give --yes to do it without being asked", what)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

// rowCount writes a number of rows.
func rowCount(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// messageCount writes a number of logical messages.
func messageCount(n int64) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

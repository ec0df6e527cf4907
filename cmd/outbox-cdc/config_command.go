package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"github.com/outbox-cdc/outbox-cdc/units"
)

func (p *program) configCommand() *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "show and check the configuration",
		Description: "A value comes from a flag, or else from its variable OUTBOX_CDC_*, or else from the file that --config names, " +
			"or else it is the default.",
		Subcommands: []*cli.Command{p.configPrintCommand(), p.configValidateCommand()},
	}
}

func (p *program) configPrintCommand() *cli.Command {
	return &cli.Command{
		Name:  "print",
		Usage: "print the values in effect, each with its source",
		Description: "What it prints is a configuration file, but for the secrets, which it does not show. " +
			"Faults are told behind it, and make the exit code 2.",
		UsageText: "outbox-cdc config print --config relay.yaml -o json",
		Flags:     append([]cli.Flag{output("yaml", "json")}, runFlags()...),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			s.output()
			write := writeYAML
			if c.String("o") == "json" {
				write = writeValues
			}
			_, faults := s.forRun(p)
			if err := write(p.out, resolved(c).options); err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			return faults
		},
	}
}

func (p *program) configValidateCommand() *cli.Command {
	return &cli.Command{
		Name:  "validate",
		Usage: "check what run would be told, without connecting to anything",
		Description: "Tells every fault and exits with 2, or exits with 0. It reads certificates and the files of secrets; " +
			"what only a server can know, such as whether a table exists, run checks when it starts.",
		UsageText: "outbox-cdc config validate --config relay.yaml",
		Flags:     runFlags(),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			if _, err := s.forRun(p); err != nil {
				return err
			}
			warnConfiguration(c, p.note)
			fmt.Fprintln(p.out, "configuration is valid")
			return nil
		},
	}
}

// runFlags are the flags of all that a configuration file may hold.
func runFlags() []cli.Flag {
	var all []cli.Flag
	for _, o := range append(configuration(), findOption(definitions(), optionConfig)) {
		all = append(all, o)
	}
	return all
}

// shown returns the value of an option as people may see it: in its usual form,
// and without secrets.
func shown(o *option) string {
	switch o.kind {
	case kindDSN:
		return redactDSN(o.value)
	case kindSecret:
		if o.value != "" {
			return hidden
		}
	case kindDuration:
		if d, err := time.ParseDuration(o.value); err == nil {
			return units.Duration(d)
		}
	case kindSize:
		if n, err := units.ParseBytes(o.value); err == nil {
			return units.Bytes(n)
		}
	case kindNumber:
		if n, err := strconv.ParseInt(o.value, 10, 64); err == nil && n <= math.MaxInt32 {
			return strconv.FormatInt(n, 10)
		}
	case kindList:
		var items []string
		for _, item := range splitNames(o.value) {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return strings.Join(items, ",")
	}
	return o.value
}

// writeYAML writes options as a configuration file.
func writeYAML(w io.Writer, all []*option) error {
	var b strings.Builder
	if o := findOption(all, optionConfig); o.IsSet() {
		fmt.Fprintf(&b, "# file %s, named by %s\n", oneLine(o.value), o.source)
	}
	group := ""
	for _, o := range all {
		if !o.isKey() {
			continue
		}
		if o.group != group {
			group = o.group
			fmt.Fprintf(&b, "\n# %s\n", group)
		}
		line := o.name + ":" + scalar(o)
		if o.source.secret != "" {
			line = "# " + line // a file may hold the secret or name its file, not both
		}
		fmt.Fprintf(&b, "%s # %s\n", line, oneLine(o.source.String()))
		if to := leads(all, o); to != nil {
			fmt.Fprintf(&b, "# leads to %s\n", oneLine(to.String()))
		}
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// leads returns where an option leads to, nil if it is no connection string, or
// none that is in effect: its file may not have been read.
func leads(all []*option, o *option) *destination {
	if o.kind != kindDSN {
		return nil
	}
	if companion := findOption(all, o.name+fileSuffix); companion.value != "" && o.source.secret == "" {
		return nil
	}
	return resolveDSN(o.value)
}

// scalar writes the value of an option, behind its name, so that YAML reads it
// as the same text.
func scalar(o *option) string {
	value := shown(o)
	switch {
	case o.tables != nil:
		return " " + value // YAML already
	case value == "" && !o.IsSet() && (o.standard != "" || o.kind == kindTables):
		return "" // no value, or that of another option in its place
	}
	node := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	if o.kind == kindSwitch || o.kind == kindNumber {
		node.Tag = "" // without the quotes of a text
	}
	if strings.Contains(value, "\n") {
		node.Style = yaml.DoubleQuotedStyle
	}
	text, err := yaml.Marshal(&node)
	if err != nil {
		return " " + strconv.Quote(value)
	}
	return " " + strings.TrimSuffix(string(text), "\n")
}

// shownValue is an option as JSON has it.
type shownValue struct {
	Value  string       `json:"value"`
	Source string       `json:"source"`
	Leads  *destination `json:"leads_to,omitempty"`
}

// writeValues writes options as JSON.
func writeValues(w io.Writer, all []*option) error {
	values := make(map[string]shownValue)
	for _, o := range all {
		if o.ofCommand {
			continue
		}
		values[o.name] = shownValue{Value: shown(o), Source: o.source.String(), Leads: leads(all, o)}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(values)
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// helpWidth is the longest line of a help text.
const helpWidth = 100

// documentation is where the pages are that a help text names.
const documentation = "https://github.com/outbox-cdc/outbox-cdc/tree/main/docs"

// appHelp returns the help of the program. Help texts are made here and not by
// the library's templates, which do not break lines.
func appHelp(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s COMMAND [flags]\n\nCommands:\n", app.Name, app.Usage, app.Name)
	listCommands(&b, app.Commands)
	b.WriteString("\nTo begin with, create what is needed in PostgreSQL, then publish:\n")
	for _, name := range []string{"init", "run"} {
		fmt.Fprintf(&b, "  %s\n", app.Command(name).UsageText)
	}
	b.WriteString("\nConfiguration:\n" + wrap(fmt.Sprintf("A flag goes before its variable of the environment, "+
		"%s for --max-in-flight-bytes, that before the file that --config names, and that before the default.",
		environment("max-in-flight-bytes")), "  "))
	fmt.Fprintf(&b, "\nHelp: %s COMMAND --help\nDocumentation: %s\n", app.Name, documentation)
	return literal(b.String())
}

func (p *program) helpCommand() *cli.Command {
	return &cli.Command{
		Name:        "help",
		Usage:       "show the help of a command",
		Description: "Does what the flag --help of the command does.",
		ArgsUsage:   "[COMMAND...]",
		UsageText:   "outbox-cdc help slot create",
		Action: func(c *cli.Context) error {
			return p.app().RunContext(c.Context, slices.Concat([]string{"outbox-cdc"}, c.Args().Slice(), []string{"--help"}))
		},
	}
}

// commandHelp returns the help of a command.
func commandHelp(c *cli.Command, parent string) string {
	path := parent + " " + c.Name
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", path, c.Usage)
	if c.Description != "" {
		b.WriteString("\n" + wrap(c.Description, ""))
	}
	if len(c.Subcommands) > 0 {
		fmt.Fprintf(&b, "\nUsage: %s COMMAND [flags]\n\nCommands:\n", path)
		listCommands(&b, c.Subcommands)
	} else {
		fmt.Fprintf(&b, "\nUsage: %s\n", path+" "+cmp.Or(c.ArgsUsage, "[flags]"))
	}
	listExamples(&b, c)
	for _, group := range []string{groupCommand, groupPostgres, groupKafka, groupEvents, groupProcess} {
		listOptions(&b, group, options(c))
	}
	if findOption(options(c), optionConfig) != nil {
		fmt.Fprintf(&b, "\nA flag goes before its $VARIABLE, that before the file of --config, that before the default.\nDocumentation: %s\n",
			documentation)
	}
	return literal(b.String())
}

// listExamples writes the example of a command, or those of the commands below
// it.
func listExamples(b *strings.Builder, c *cli.Command) {
	examples := []string{c.UsageText}
	if len(c.Subcommands) > 0 {
		examples = nil
		for _, sub := range c.Subcommands {
			examples = append(examples, sub.UsageText)
		}
	}
	b.WriteString("\nExample:\n")
	for _, example := range examples {
		fmt.Fprintf(b, "  %s\n", example)
	}
}

func listCommands(b *strings.Builder, commands []*cli.Command) {
	for _, c := range commands {
		fmt.Fprintf(b, "  %-12s %s\n", c.Name, c.Usage)
	}
}

// listOptions writes the options of a group in the order of their definitions,
// each with what it is for on lines of its own.
func listOptions(b *strings.Builder, group string, all []*option) {
	all = slices.DeleteFunc(all, func(o *option) bool { return o.group != group })
	if len(all) == 0 {
		return
	}
	defined := definitions()
	slices.SortStableFunc(all, func(a, b *option) int { return cmp.Compare(rank(defined, a), rank(defined, b)) })
	fmt.Fprintf(b, "\n%s:\n", group)
	for _, o := range all {
		b.WriteString("  " + optionTitle(o) + "\n" + wrap(o.use, "      "))
	}
}

func rank(defined []*option, o *option) int {
	return slices.IndexFunc(defined, func(d *option) bool { return d.name == o.name })
}

// optionTitle is the line that names an option, its default and its variable.
func optionTitle(o *option) string {
	title := dashed(o.name)
	switch {
	case o.kind != kindSwitch:
		title += " " + placeholder(o)
		if o.standard != "" {
			title += " (default " + o.standard + ")"
		}
	case o.standard == "true":
		title += "=false"
	}
	for _, variable := range o.GetEnvVars() {
		if len("  "+title+"  $"+variable) > helpWidth {
			title += "\n    "
		}
		title += "  $" + variable
	}
	return title
}

// placeholder stands for the value of an option, or says which there are.
func placeholder(o *option) string {
	switch o.kind {
	case kindChoice:
		return strings.Join(o.choices, "|")
	case kindDuration:
		return "DURATION"
	case kindSize:
		return "SIZE"
	case kindNumber:
		return "NUMBER"
	case kindPath:
		return "FILE"
	case kindList:
		return "VALUE[,VALUE...]"
	case kindTables:
		return "YAML"
	}
	return "VALUE"
}

// dashed returns a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// wrap breaks text into lines that begin with indent.
func wrap(text, indent string) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > helpWidth && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}

// literal makes a template of a finished text.
func literal(text string) string {
	return strings.ReplaceAll(text, "{{", `{{"{{"}}`)
}

// nearest returns a question that names the known word which is most like the
// given one, or nothing if none is like it.
func nearest(word string, known []string) string {
	distance := func(k string) int { return smetrics.WagnerFischer(strings.TrimLeft(k, "-"), word, 1, 1, 1) }
	if len(known) == 0 {
		return ""
	}
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	if 2*distance(best) > max(len(word), 4) {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

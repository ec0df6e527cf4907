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

// appHelp returns the help of the program. Help texts are made here and not by
// the library's templates, which do not break lines.
func appHelp(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s COMMAND [flags]\n\nCommands:\n", app.Name, app.Usage, app.Name)
	listCommands(&b, app.Commands)
	fmt.Fprintf(&b, "\nEach flag NAME is also the environment variable %s; the flag goes first.\nSee %s COMMAND --help.\n",
		environment("NAME"), app.Name)
	return literal(b.String())
}

func (p *program) helpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "show the help of a command, as its flag --help does",
		ArgsUsage: "[COMMAND...]",
		UsageText: "outbox-cdc help slot create",
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
	if c.UsageText != "" {
		fmt.Fprintf(&b, "\nExample:\n  %s\n", strings.ReplaceAll(c.UsageText, "\n", "\n  "))
	}
	for _, group := range []string{groupCommand, groupPostgres, groupKafka, groupEvents, groupProcess} {
		listFlags(&b, group, c.Flags)
	}
	return literal(b.String())
}

func listCommands(b *strings.Builder, commands []*cli.Command) {
	for _, c := range commands {
		fmt.Fprintf(b, "  %-12s %s\n", c.Name, c.Usage)
	}
}

// listFlags writes the flags of a group, each with what it is for on lines of
// its own.
func listFlags(b *strings.Builder, group string, flags []cli.Flag) {
	var listed bool
	for _, f := range flags {
		doc, ok := f.(interface {
			cli.DocGenerationFlag
			cli.CategorizableFlag
		})
		if !ok || doc.GetCategory() != group {
			continue
		}
		if !listed {
			fmt.Fprintf(b, "\n%s:\n", group)
			listed = true
		}
		b.WriteString("  " + flagTitle(f.Names()[0], doc) + "\n")
		b.WriteString(wrap(doc.GetUsage(), "      "))
	}
}

// flagTitle is the line that names a flag, its default and its variable.
func flagTitle(name string, doc cli.DocGenerationFlag) string {
	title := dashed(name)
	switch value := doc.GetValue(); {
	case !doc.TakesValue() && value == "true":
		title += "=false"
	case !doc.TakesValue():
	case value != "":
		title += " VALUE (default " + value + ")"
	default:
		title += " VALUE"
	}
	if variables := doc.GetEnvVars(); len(variables) > 0 {
		title += "  $" + variables[0]
	}
	return title
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

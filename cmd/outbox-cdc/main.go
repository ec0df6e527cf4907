// Command outbox-cdc publishes the rows of an outbox table of PostgreSQL to
// Kafka, from the write-ahead log, in commit order and once.
//
// Each command has a file of its own, which parses and wires; what a command
// does is in the packages beside. An error ends a command with one line on
// standard error and the exit code that the table in errors.go gives it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

func main() {
	stop, release := watchSignals()
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, stop: stop}
	defer p.crash()
	stopProfile := profile(p.err)
	code := p.execute(os.Args)
	stopProfile()
	release()
	os.Exit(code)
}

// program is what the commands have in common.
type program struct {
	in       *os.File
	out, err io.Writer
	stop     stopping
	// verbose says that --log-level is debug.
	verbose bool
}

// execute runs the command that args name and returns the exit code.
func (p *program) execute(args []string) int {
	err := p.app().RunContext(p.stop.soft, args)
	if err == nil {
		return codeOK
	}
	if p.stop.soft.Err() != nil && errors.Is(err, context.Cause(p.stop.soft)) {
		err = fmt.Errorf("%w before it was done", errInterrupted)
	}
	for _, line := range operatorLines(err) {
		fmt.Fprintf(p.err, "outbox-cdc: %s\n", line)
	}
	return classify(err).code
}

// app is the command line.
func (p *program) app() *cli.App {
	app := &cli.App{
		Name:    "outbox-cdc",
		Usage:   "publish the rows of an outbox table of PostgreSQL to Kafka",
		Version: buildVersion(),
		Commands: []*cli.Command{
			p.initCommand(),
			p.runCommand(),
			p.slotCommand(),
			p.publicationCommand(),
			p.schemaCommand(),
			p.configCommand(),
			p.completionCommand(),
			p.versionCommand(),
			p.helpCommand(),
		},
		Flags:          []cli.Flag{cli.HelpFlag}, // the library's comes with its own help command only
		Action:         unknownCommand,
		OnUsageError:   usageFault,
		ExitErrHandler: func(*cli.Context, error) {},
		Writer:         p.out,
		ErrWriter:      p.err,
	}
	app.CustomAppHelpTemplate = appHelp(app)
	for _, c := range app.Commands {
		complete(c, app.Name)
	}
	return app
}

// complete gives a command and those below it what all have in common.
func complete(c *cli.Command, parent string) {
	c.OnUsageError = usageFault
	c.HideHelpCommand = true
	switch {
	case len(c.Subcommands) == 0 && c.ArgsUsage == "":
		c.Before = prepare
	case c.Action == nil:
		c.Action = unknownCommand
	}
	for _, sub := range c.Subcommands {
		complete(sub, parent+" "+c.Name)
	}
	c.CustomHelpTemplate = commandHelp(c, parent)
}

// noArguments refuses arguments that are not flags: hardly a command takes any,
// and flags behind one would be ignored.
func noArguments(c *cli.Context) error {
	if c.NArg() == 0 {
		return nil
	}
	return usage("unexpected argument %q; see %s --help", withoutPassword(c.Args().First()), c.Command.HelpName)
}

// unknownCommand is what runs when no command is named, or none that exists.
func unknownCommand(c *cli.Context) error {
	name := c.Args().First()
	if name == "" {
		return usage("name a command: %s; see %s --help", strings.Join(commandNames(c), ", "), c.Command.HelpName)
	}
	return usage("unknown command %q%s; see %s --help", withoutPassword(name), nearest(name, commandNames(c)), c.Command.HelpName)
}

func commandNames(c *cli.Context) []string {
	var names []string
	for _, sub := range c.Command.Subcommands {
		if sub.Name != "help" {
			names = append(names, sub.Name)
		}
	}
	return names
}

// usageFault makes an error for an operator of one that the parsing of flags
// gave. The library has nothing but texts to tell them apart by.
func usageFault(c *cli.Context, err error, _ bool) error {
	if name, found := strings.CutPrefix(err.Error(), "flag needs an argument: -"); found {
		return usage("%s needs a value; see %s --help", dashed(strings.TrimLeft(name, "-")), c.Command.HelpName)
	}
	if word, bad := strings.CutPrefix(err.Error(), "bad flag syntax: "); bad {
		word, _, _ = strings.Cut(word, "=") // what follows may be a secret
		return usage("%q is no flag; see %s --help", word, c.Command.HelpName)
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usage("%w", err)
	}
	name = strings.TrimLeft(name, "-")
	var names []string
	for _, f := range c.Command.Flags {
		names = append(names, dashed(f.Names()[0]))
	}
	return usage("unknown flag %s%s; see %s --help", dashed(name), nearest(name, names), c.Command.HelpName)
}

package main

import (
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// A shell is one that completion is made for.
type shell struct {
	name    string
	where   string // for people: what to do with the script
	example string
	write   func(w io.Writer, root *word)
}

func shells() []shell {
	return []shell{
		{
			name: "bash",
			where: "As root, put the script where the example does, or for yourself alone into " +
				"~/.local/share/bash-completion/completions/outbox-cdc. Both need the package bash-completion. " +
				`Without it, put eval "$(outbox-cdc completion bash)" into ~/.bashrc.`,
			example: "outbox-cdc completion bash > /usr/share/bash-completion/completions/outbox-cdc",
			write:   writeBash,
		},
		{
			name: "zsh",
			where: "As root, put the script where the example does, or for yourself alone into a file named _outbox-cdc in " +
				"a directory of $fpath. Or put source <(outbox-cdc completion zsh) into ~/.zshrc, behind compinit.",
			example: "outbox-cdc completion zsh > /usr/local/share/zsh/site-functions/_outbox-cdc",
			write:   writeZsh,
		},
		{
			name: "fish",
			where: "As root, put the script where the example does, or for yourself alone into " +
				"~/.config/fish/completions/outbox-cdc.fish.",
			example: "outbox-cdc completion fish > /etc/fish/completions/outbox-cdc.fish",
			write:   writeFish,
		},
	}
}

func (p *program) completionCommand() *cli.Command {
	command := &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands, flags and values in a shell",
		Description: "The script belongs to this version of the binary: make it again after an upgrade.",
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return usage("name a shell: bash, zsh or fish; see %s --help", c.Command.HelpName)
			}
			return usage("unknown shell %q, name bash, zsh or fish; see %s --help", c.Args().First(), c.Command.HelpName)
		},
	}
	for _, s := range shells() {
		command.Subcommands = append(command.Subcommands, &cli.Command{
			Name:        s.name,
			Usage:       "print the script for " + s.name,
			Description: s.where,
			UsageText:   s.example,
			Action: func(*cli.Context) error {
				s.write(p.out, commandWords(p.app()))
				return nil
			},
		})
	}
	return command
}

// A word is a command as a shell completes it.
type word struct {
	path     string // the words behind the name of the program
	name     string
	use      string
	flags    []flagWord
	commands []*word
}

// A flagWord is a flag as a shell completes it.
type flagWord struct {
	name string // as it is typed
	use  string
	// on is a switch that is on by itself: all there is to say is =false.
	on      bool
	value   bool     // the next word belongs to it
	file    bool     // and names a file
	choices []string // or is one of these
}

// commandWords returns the program with all that can be typed behind it.
func commandWords(app *cli.App) *word {
	root := &word{
		flags:    []flagWord{newFlagWord(cli.HelpFlag), newFlagWord(cli.VersionFlag)},
		commands: newWords(app.Commands, ""),
	}
	for _, w := range root.commands {
		if w.name == "help" {
			w.commands = namesOnly(root.commands, "help")
		}
	}
	return root
}

func newWords(commands []*cli.Command, parent string) []*word {
	var words []*word
	for _, c := range commands {
		w := &word{path: strings.TrimSpace(parent + " " + c.Name), name: c.Name, use: c.Usage}
		w.commands = newWords(c.Subcommands, w.path)
		for _, f := range c.Flags {
			w.flags = append(w.flags, newFlagWord(f))
		}
		w.flags = append(w.flags, newFlagWord(cli.HelpFlag))
		words = append(words, w)
	}
	return words
}

// namesOnly returns commands as they are named behind help.
func namesOnly(commands []*word, parent string) []*word {
	var words []*word
	for _, c := range commands {
		if c.name == "help" {
			continue
		}
		w := &word{path: parent + " " + c.name, name: c.name, use: c.use}
		w.commands = namesOnly(c.commands, w.path)
		words = append(words, w)
	}
	return words
}

// all calls visit with the command and with those below it.
func (w *word) all(visit func(*word)) {
	visit(w)
	for _, c := range w.commands {
		c.all(visit)
	}
}

func newFlagWord(f cli.Flag) flagWord {
	w := flagWord{name: dashed(f.Names()[0])}
	switch f := f.(type) {
	case *option:
		w.use, w.choices, w.value, w.file = f.use, f.choices, f.TakesValue(), f.kind == kindPath
		w.on = f.kind == kindSwitch && f.standard == "true"
	case *cli.BoolFlag: // the library's own
		w.use = f.Usage
	}
	return w
}

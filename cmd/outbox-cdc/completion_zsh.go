package main

import (
	"fmt"
	"io"
	"strings"
)

const zshHead = `#compdef outbox-cdc
# Completion of outbox-cdc for zsh, made by "outbox-cdc completion zsh".
`

// zshTail makes the script work in both places: as a file of $fpath, which is
// the body of the function the first time, and read by source.
const zshTail = `
if [[ $funcstack[1] == _outbox-cdc ]]; then
    _outbox-cdc "$@"
else
    compdef _outbox-cdc outbox-cdc
fi
`

// writeZsh writes the script for zsh: a function for each command.
func writeZsh(w io.Writer, root *word) {
	io.WriteString(w, zshHead)
	root.all(func(c *word) {
		if len(c.commands) > 0 {
			writeZshGroup(w, c)
		} else {
			writeZshLeaf(w, c)
		}
	})
	io.WriteString(w, zshTail)
}

// writeZshGroup writes the function of a command with others below it.
func writeZshGroup(w io.Writer, c *word) {
	fmt.Fprintf(w, "\n%s() {\n    local state line\n    local -a commands=(\n", zshFunction(c.path))
	for _, sub := range c.commands {
		fmt.Fprintf(w, "        %s\n", zshQuote(sub.name+":"+sub.use))
	}
	io.WriteString(w, "    )\n    _arguments -C")
	writeZshFlags(w, c)
	io.WriteString(w, " \\\n        '1: :->command' \\\n        '*:: :->rest'\n    case $state in\n")
	io.WriteString(w, "    command) _describe -t commands command commands ;;\n    rest)\n        case $line[1] in\n")
	for _, sub := range c.commands {
		fmt.Fprintf(w, "        %s) %s ;;\n", sub.name, zshFunction(sub.path))
	}
	io.WriteString(w, "        esac\n        ;;\n    esac\n}\n")
}

func writeZshLeaf(w io.Writer, c *word) {
	fmt.Fprintf(w, "\n%s() {\n    _arguments", zshFunction(c.path))
	writeZshFlags(w, c)
	io.WriteString(w, "\n}\n")
}

// writeZshFlags writes flags as _arguments takes them, see zshcompsys(1).
func writeZshFlags(w io.Writer, c *word) {
	brackets := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`)
	for _, f := range c.flags {
		spec := f.name
		if strings.HasPrefix(spec, "--") && (f.value || f.on) {
			spec += "=" // or the next word
		}
		if f.on {
			spec += "-" // not the next word
		}
		spec += "[" + brackets.Replace(f.use) + "]"
		switch {
		case f.on:
			spec += ":value:(false)"
		case len(f.choices) > 0:
			spec += ":value:(" + strings.Join(f.choices, " ") + ")"
		case f.file:
			spec += ":file:_files"
		case f.value:
			spec += ":value: "
		}
		fmt.Fprintf(w, " \\\n        %s", zshQuote(spec))
	}
}

// zshFunction returns the name of the function of a command.
func zshFunction(path string) string {
	return strings.TrimRight("_outbox-cdc_"+strings.ReplaceAll(path, " ", "_"), "_")
}

func zshQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

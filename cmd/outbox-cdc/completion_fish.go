package main

import (
	"fmt"
	"io"
	"strings"
)

// fishHead has a function that tells which command is being typed. fish asks it
// once for all lines with the same argument.
const fishHead = `# Completion of outbox-cdc for fish, made by "outbox-cdc completion fish".

function __outbox_cdc_at
    set -l command
    for word in (commandline -opc)[2..]
        switch "$command $word"
            case %s
                set command "$command $word"
        end
    end
    test "$command" = "$argv"
end

complete -c outbox-cdc -f
`

// writeFish writes the script for fish.
func writeFish(w io.Writer, root *word) {
	var paths []string
	root.all(func(c *word) {
		if c.path != "" {
			paths = append(paths, fishQuote(" "+c.path))
		}
	})
	fmt.Fprintf(w, fishHead, strings.Join(paths, " "))
	root.all(func(c *word) { writeFishCommand(w, c) })
}

func writeFishCommand(w io.Writer, c *word) {
	at := "__outbox_cdc_at"
	if c.path != "" {
		at += " " + fishQuote(" "+c.path)
	}
	line := fmt.Sprintf("complete -c outbox-cdc -n %s", fishQuote(at))
	io.WriteString(w, "\n")
	for _, sub := range c.commands {
		fmt.Fprintf(w, "%s -a %s -d %s\n", line, sub.name, fishQuote(sub.use))
	}
	for _, f := range c.flags {
		kind := " -l "
		if !strings.HasPrefix(f.name, "--") {
			kind = " -s "
		}
		kind += strings.TrimLeft(f.name, "-")
		switch {
		case f.on:
			kind += " -a false"
		case len(f.choices) > 0:
			kind += " -x -a " + fishQuote(strings.Join(f.choices, " "))
		case f.file:
			kind += " -r -F"
		case f.value:
			kind += " -x"
		}
		fmt.Fprintf(w, "%s%s -d %s\n", line, kind, fishQuote(f.use))
	}
}

func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

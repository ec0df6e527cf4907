package main

import (
	"fmt"
	"io"
	"strings"
)

// bashHead finds out what is being typed. It needs bash 3.2, which macOS has,
// and no function of the package bash-completion.
const bashHead = `# Completion of outbox-cdc for bash, made by "outbox-cdc completion bash".

_outbox_cdc() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command= flag= joined= prefix= commands= flags= values= kind= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command ${COMP_WORDS[i]}" in
`

const bashValue = `            command="$command ${COMP_WORDS[i]}"
            ;;
        esac
    done

    # The value of a flag is the next word or stands behind a =, at which bash
    # breaks words unless COMP_WORDBREAKS says otherwise.
    if [[ $current == = ]]; then
        flag=$previous joined=1 current=
    elif [[ $previous == = ]]; then
        flag=${COMP_WORDS[COMP_CWORD - 2]} joined=1
    elif [[ $current == --*=* ]]; then
        flag=${current%%=*} joined=1 prefix=${current%%=*}= current=${current#*=}
    elif [[ $previous == -* ]]; then
        flag=$previous
    fi

    case $command in
`

const bashTail = `    esac

    local IFS=$'\n'
    case ${kind:-${joined:+other}} in
    choice) COMPREPLY=($(compgen -P "$prefix" -W "${values// /$'\n'}" -- "$current")) ;;
    file)
        COMPREPLY=($(compgen -P "$prefix" -f -- "$current"))
        compopt -o filenames 2>/dev/null
        ;;
    other) ;;
    *)
        if [[ $current == -* || -z $commands ]]; then
            commands=$flags
        fi
        COMPREPLY=($(compgen -W "${commands// /$'\n'}" -- "$current"))
        ;;
    esac
}

complete -F _outbox_cdc outbox-cdc
`

// writeBash writes the script for bash.
func writeBash(w io.Writer, root *word) {
	var paths []string
	root.all(func(c *word) {
		if c.path != "" {
			paths = append(paths, "' "+c.path+"'")
		}
	})
	fmt.Fprintf(w, "%s        %s)\n%s", bashHead, strings.Join(paths, " | "), bashValue)
	root.all(func(c *word) { writeBashCommand(w, c) })
	io.WriteString(w, bashTail)
}

// writeBashCommand writes the branch of a command: what can follow it, and what
// can follow its flags.
func writeBashCommand(w io.Writer, c *word) {
	path := ""
	if c.path != "" {
		path = " " + c.path
	}
	var commands, flags, others, files []string
	var choices strings.Builder
	for _, f := range c.flags {
		name := f.name
		switch {
		case f.on:
			name += "=false"
			fmt.Fprintf(&choices, "        %s) [[ -n $joined ]] && kind=choice values='false' ;;\n", f.name)
		case len(f.choices) > 0:
			fmt.Fprintf(&choices, "        %s) kind=choice values='%s' ;;\n", f.name, strings.Join(f.choices, " "))
		case f.file:
			files = append(files, f.name)
		case f.value:
			others = append(others, f.name)
		}
		flags = append(flags, name)
	}
	for _, sub := range c.commands {
		commands = append(commands, sub.name)
	}
	fmt.Fprintf(w, "    '%s')\n", path)
	fmt.Fprintf(w, "        commands='%s'\n        flags='%s'\n", strings.Join(commands, " "), strings.Join(flags, " "))
	fmt.Fprintf(w, "        case $flag in\n%s", choices.String())
	if len(files) > 0 {
		fmt.Fprintf(w, "        %s) kind=file ;;\n", strings.Join(files, " | "))
	}
	if len(others) > 0 {
		fmt.Fprintf(w, "        %s) kind=other ;;\n", strings.Join(others, " | "))
	}
	io.WriteString(w, "        esac\n        ;;\n")
}

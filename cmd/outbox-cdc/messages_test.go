package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// commandInText is a command as a message quotes it, or as an example is made
// of.
var commandInText = regexp.MustCompile(`(?:^|")outbox-cdc ([a-z][^"]*)`)

// TestMessagesNameWhatExists finds the flags and commands in every text of the
// program, and holds them against the definitions: a remedy that does not exist
// is worse than none.
func TestMessagesNameWhatExists(t *testing.T) {
	app := (&program{}).app()
	every := make(map[string]bool)
	leaves(app.Commands, "", func(_ string, c *cli.Command) { addFlags(every, c) })
	for _, dir := range []string{".", "../../checkpoint", "../../decoder", "../../publisher", "../../replication", "../../sql"} {
		for position, text := range literals(t, dir) {
			for _, name := range flagInText.FindAllString(text, -1) {
				if !every[name] {
					t.Errorf("%s names %s, a flag that does not exist", position, name)
				}
			}
			for _, m := range commandInText.FindAllStringSubmatch(text, -1) {
				checkCommand(t, position, app, m[1])
			}
		}
	}
}

// checkCommand checks a quoted command line, behind the program's name.
func checkCommand(t *testing.T, position string, app *cli.App, line string) {
	t.Helper()
	var found *cli.Command
	commands := app.Commands
	for word := range strings.FieldsSeq(line) {
		if strings.HasPrefix(word, "-") || len(commands) == 0 {
			break
		}
		found = nil
		for _, c := range commands {
			if c.Name == word {
				found = c
			}
		}
		if found == nil {
			t.Errorf("%s names %q, a command that does not exist", position, line)
			return
		}
		commands = found.Subcommands
	}
	flags := make(map[string]bool)
	addFlags(flags, found)
	for _, name := range flagInText.FindAllString(line, -1) {
		if !flags[name] {
			t.Errorf("%s names %q, a command without the flag %s", position, line, name)
		}
	}
}

func addFlags(flags map[string]bool, c *cli.Command) {
	flags["--help"] = true
	for _, f := range c.Flags {
		for _, name := range f.Names() {
			flags[dashed(name)] = true
		}
	}
}

// literals returns the string literals of a package, without its tests, by
// position.
func literals(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(dir, entry.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					texts[files.Position(literal.Pos()).String()] = text
				}
			}
			return true
		})
	}
	return texts
}

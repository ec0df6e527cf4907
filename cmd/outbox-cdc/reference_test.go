package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// referenceBegins is the line of the page behind which it is made.
const referenceBegins = "<!-- The rest is made from the definitions of the options by TestConfigurationReference. -->\n"

// TestConfigurationReference holds the reference in docs/configuration.md
// against the definitions it is made of.
func TestConfigurationReference(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "configuration.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, _, found := strings.Cut(string(page), referenceBegins)
	if !found {
		t.Fatalf("%s has no line %s", path, referenceBegins)
	}
	want := text + referenceBegins + reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(page) != want {
		t.Error("docs/configuration.md is not what the definitions say; make it again with: go test ./cmd/outbox-cdc -run TestConfigurationReference -update")
	}
}

// reference is the part of the page that lists all options.
func reference() string {
	var b strings.Builder
	for _, group := range []string{groupPostgres, groupKafka, groupEvents, groupProcess} {
		fmt.Fprintf(&b, "\n### %s\n\n| key and flag | variable | value | default | what it is for |\n|---|---|---|---|---|\n", group)
		for _, o := range definitions() {
			if o.group == group {
				name := o.name
				if !o.isKey() {
					name = dashed(o.name) // a flag alone
				}
				fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", name, environment(o.name), values(o), quoted(o.standard), o.use)
			}
		}
	}
	b.WriteString("\n### Flags of single commands\n\n| flag | value | default | what it is for |\n|---|---|---|---|\n")
	for _, o := range definitions() {
		if o.ofCommand {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", dashed(o.name), values(o), quoted(o.standard), o.use)
		}
	}
	return b.String()
}

// values says which values an option can have.
func values(o *option) string {
	switch o.kind {
	case kindSwitch:
		return "`true`, `false`"
	case kindChoice:
		return "`" + strings.Join(o.choices, "`, `") + "`"
	case kindDuration:
		return "duration"
	case kindSize:
		return "size"
	case kindNumber:
		return "number"
	case kindPath:
		return "file"
	case kindList:
		return "list"
	case kindTables:
		return "list of tables"
	case kindSecret, kindDSN:
		return "secret"
	}
	return "text"
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

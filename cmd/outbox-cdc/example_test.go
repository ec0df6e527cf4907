package main

import (
	"os"
	"strings"
	"testing"
)

const exampleFile = "../../examples/outbox-cdc.yaml"

// The example is valid, and so is it with all that it leaves to the reader.
func TestExampleFile(t *testing.T) {
	got := execute(t, "config", "validate", "--config", exampleFile)
	if want := (outcome{out: "configuration is valid\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	content, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Builder{}
	for l := range strings.Lines(string(content)) {
		if strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "# ") && strings.Contains(l, ": ") {
			l = l[1:]
		}
		whole.WriteString(l)
	}
	f := file{path: exampleFile, entries: make(map[string]entry)}
	f.parse([]byte(whole.String()))
	for _, o := range configuration() {
		e, found := f.entries[o.name]
		if !found {
			t.Errorf("no key %s", o.name)
		} else if commented := strings.Contains(string(content), "\n#"+o.name+":"); commented && o.standard != "" && e.value != o.standard {
			t.Errorf("the default of %s is %s, not %s", o.name, o.standard, e.value)
		}
	}
	if f.faults != nil {
		t.Errorf("got %v", f.faults)
	}
	for _, described := range f.entries["tables"].tables {
		if _, err := described.outbox("outbox_events"); err != nil {
			t.Errorf("tables: %v", err)
		}
	}
}

// The lists of tables in the manual are valid.
func TestTablesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n")[1:]
	for _, block := range blocks {
		content, _, _ := strings.Cut(block, "```")
		got := execute(t, "schema", "print", "-o", "json", "--config", write(t, "relay.yaml", content))
		if got.code != codeOK || len(parse[printedSchema](t, got.out).Tables) == 0 {
			t.Errorf("got %+v of\n%s", got, content)
		}
	}
	if len(blocks) == 0 {
		t.Error("the page has no list of tables")
	}
}

package main

import (
	"bytes"
	_ "embed"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"
)

var update = flag.Bool("update", false, "rewrite docs/exit-codes.md")

//go:embed testdata/exit-codes.md.tmpl
var exitCodesTemplate string

var flagInText = regexp.MustCompile(`--[a-z][a-z0-9-]*[a-z0-9]`)

// codeOnPage and causeOnPage are what the page says of an exit code and of a
// row of the table of errors.
type (
	codeOnPage struct {
		Code             int
		Meaning, Restart string
		Causes           []causeOnPage
	}
	causeOnPage struct{ Name, Reaction, Reason, Remedy string }
)

// TestExitCodesPage holds docs/exit-codes.md against the tables it is made of.
func TestExitCodesPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "exit-codes.md")
	want := exitCodesPage(t)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/exit-codes.md is not what the tables say; make it again with: go test ./cmd/outbox-cdc -run TestExitCodesPage -update")
	}
}

func exitCodesPage(t *testing.T) []byte {
	t.Helper()
	reactions := map[class]string{classTransient: "tries again", classStartOver: "tries again at once", classFatal: "ends"}
	var codes []codeOnPage
	for _, c := range exitCodes() {
		on := codeOnPage{Code: c.code, Meaning: asCode(c.meaning), Restart: string(c.restart)}
		for _, r := range rules() {
			if r.code == c.code {
				on.Causes = append(on.Causes, causeOnPage{asCode(r.name), reactions[r.class], asCode(r.reason), asCode(r.remedy)})
			}
		}
		codes = append(codes, on)
	}
	var page bytes.Buffer
	if err := template.Must(template.New("").Parse(exitCodesTemplate)).Execute(&page, codes); err != nil {
		t.Fatal(err)
	}
	return page.Bytes()
}

// asCode sets the flags and the quoted commands of a text as code.
func asCode(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			b.WriteString("`" + part + "`")
			continue
		}
		b.WriteString(flagInText.ReplaceAllString(part, "`$0`"))
	}
	return b.String()
}

//go:build linux || darwin

package integration

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// behaviours are the rows of docs/guarantees.md, each of which a test stands
// for.
func behaviours() []string {
	var ids []string
	for i := 1; i <= 16; i++ {
		ids = append(ids, fmt.Sprintf("P%d", i))
	}
	return append(ids, strings.Fields(`O1 O2 O3 O4 O5
		S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 S18 S19 S20 S22 S23 S24 S25 S26 S27 S28 S29
		K1 K2 K3 K4 K5 K6 K7 K8 K9 K10 K11 K12 K13 K14 C1 C2 C3 C4 C5 C6 C7 C8 R1 R2 R3 R4`)...)
}

// TestEveryBehaviourIsClaimed finds the tests of the whole repository by the
// "Behaviours:" line of their doc comments.
func TestEveryBehaviourIsClaimed(t *testing.T) {
	claimed := claims(t)
	for _, id := range behaviours() {
		if len(claimed[id]) == 0 {
			t.Errorf("no test claims %s in a line of its doc comment that starts with \"Behaviours:\"", id)
		}
	}
}

// TestGuaranteesNameTheirTests holds the table of docs/guarantees.md against
// the tests: each row begins with the id and names tests that claim it.
func TestGuaranteesNameTheirTests(t *testing.T) {
	claimed := claims(t)
	root, err := harness.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\| *([A-Z]\d+) *\|.*$`).FindAllStringSubmatch(string(text), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("docs/guarantees.md has two rows for %s", m[1])
		}
		rows[m[1]] = m[0]
	}
	want := behaviours()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(rows)); !slices.Equal(got, want) {
		t.Errorf("docs/guarantees.md has rows for\n%v, want\n%v", got, want)
	}
	testName := regexp.MustCompile(`\bTest\w+`)
	for id, row := range rows {
		named := testName.FindAllString(row, -1)
		if len(named) == 0 {
			t.Errorf("docs/guarantees.md names no test for %s", id)
		}
		for _, name := range named {
			if !slices.Contains(claimed[id], name) {
				t.Errorf("docs/guarantees.md names %s for %s, which does not claim it; those that do: %v", name, id, claimed[id])
			}
		}
	}
}

// claims returns the names of the tests that claim each id.
func claims(t *testing.T) map[string][]string {
	t.Helper()
	root, err := harness.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	claimed := make(map[string][]string)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return claimsOf(path, claimed)
	})
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// claimsOf adds the claims of one file.
func claimsOf(path string, claimed map[string][]string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || !strings.HasPrefix(f.Name.Name, "Test") {
			continue
		}
		for line := range strings.Lines(f.Doc.Text()) {
			ids, found := strings.CutPrefix(line, "Behaviours:")
			if !found {
				continue
			}
			for id := range strings.FieldsFuncSeq(ids, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '.' }) {
				claimed[id] = append(claimed[id], f.Name.Name)
			}
		}
	}
	return nil
}

//go:build linux || darwin

package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction is a line of a Dockerfile.
type instruction struct {
	name string
	args []string
}

// readDockerfile returns the stages of the Dockerfile.
func readDockerfile(t *testing.T) [][]instruction {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "USER", "ENTRYPOINT", "CMD"}
	var stages [][]instruction
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		i := instruction{fields[0], fields[1:]}
		if !slices.Contains(known, i.name) {
			t.Fatalf("unknown instruction %q", i.name)
		}
		if i.name == "FROM" {
			stages = append(stages, nil)
		}
		if len(stages) == 0 {
			t.Fatalf("%s stands in front of FROM", i.name)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], i)
	}
	return stages
}

// find returns the arguments of the last instruction of a name.
func find(stage []instruction, name string) []string {
	for _, i := range slices.Backward(stage) {
		if i.name == name {
			return i.args
		}
	}
	return nil
}

func TestDockerfileMakesASmallImageWithoutRoot(t *testing.T) {
	stages := readDockerfile(t)
	if len(stages) != 2 {
		t.Fatalf("got %d stages, want one that builds and one that runs", len(stages))
	}
	build, run := stages[0], stages[1]
	if got := find(run, "FROM"); !slices.Equal(got, []string{"scratch"}) {
		t.Errorf("the image is based on %q, want scratch", got)
	}
	if got := find(run, "USER"); len(got) != 1 || !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(got[0]) {
		t.Errorf("the image runs as %q, want a number that is not root's", got)
	}
	var entrypoint []string
	if err := json.Unmarshal([]byte(strings.Join(find(run, "ENTRYPOINT"), " ")), &entrypoint); err != nil || len(entrypoint) != 1 {
		t.Fatalf("entry point: %q, %v", entrypoint, err)
	}
	if got := find(run, "COPY"); len(got) != 3 || got[0] != "--from="+find(build, "FROM")[2] || got[2] != entrypoint[0] {
		t.Errorf("what is copied last is %q, not the entry point %q", got, entrypoint)
	}
	if got := strings.Join(find(build, "RUN"), " "); !strings.HasSuffix(got, "deploy/build.sh "+entrypoint[0]) {
		t.Errorf("the binary is built with %q", got)
	}
}

func TestDockerfileBuildsWithTheVersionOfGoOfTheModule(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if got, want := find(readDockerfile(t)[0], "FROM")[0], "golang:"+string(version[1]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDockerfileCopiesWhatExists(t *testing.T) {
	for _, i := range readDockerfile(t)[0] {
		if i.name != "COPY" {
			continue
		}
		for _, source := range i.args[:len(i.args)-1] {
			if _, err := os.Stat(filepath.Join("..", source)); err != nil {
				t.Error(err)
			}
		}
	}
}

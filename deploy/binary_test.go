//go:build linux || darwin

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxBinaryBytes is how large the static binary may be.
const maxBinaryBytes = 20_000_000

func TestBinaryIsSmallAndStatic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox-cdc")
	build := exec.Command("./build.sh", path)
	build.Env = append(os.Environ(), "VERSION=v0.0.0-test")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxBinaryBytes {
		t.Errorf("binary: got %d bytes, want at most %d", info.Size(), maxBinaryBytes)
	}
	version, err := exec.Command(path, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(version), "v0.0.0-test") {
		t.Errorf("version: got %q, want one with v0.0.0-test", version)
	}
}

// The binary holds nothing that is only there for tests.
func TestBinaryHoldsNoTestOnlyModule(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "../cmd/outbox-cdc")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for module := range strings.Lines(string(out)) {
		if strings.HasPrefix(module, "github.com/twmb/") {
			t.Errorf("the binary depends on %s", strings.TrimSpace(module))
		}
	}
	packages, err := exec.Command("go", "list", "-deps", "../cmd/outbox-cdc").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(packages), "outbox-cdc/test/") {
		t.Error("the binary depends on the test harness")
	}
}

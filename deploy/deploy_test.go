//go:build linux || darwin

// Package deploy holds what runs outbox-cdc elsewhere. Its tests check, without
// a container engine, that these files parse and agree with the binary and
// with each other.
package deploy

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// help returns what the binary says about a command.
func help(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(harness.Binary(t), append(command, "--help")...).Output()
	if err != nil {
		t.Fatalf("outbox-cdc %s --help: %v", strings.Join(command, " "), err)
	}
	return string(out)
}

// words are the words of a text without the punctuation around them.
func words(text string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(text) {
		set[strings.Trim(w, ",;:()")] = true
	}
	return set
}

// checkArguments checks that the binary has the command, and the command the
// flags.
func checkArguments(t *testing.T, args []string) {
	t.Helper()
	known := words(help(t, args[0]))
	for _, argument := range args[1:] {
		flag, _, _ := strings.Cut(argument, "=")
		if strings.HasPrefix(flag, "-") && !known[flag] {
			t.Errorf("outbox-cdc %s has no flag %s", args[0], flag)
		}
	}
}

// checkConfiguration checks that the binary takes a configuration file, with the
// variables around it.
func checkConfiguration(t *testing.T, text string, variables map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var env []string
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	if got := harness.RunRelay(t, env, "config", "validate", "--config", file); got.Code != 0 {
		t.Errorf("config validate: got exit code %d and %q", got.Code, got.Stderr)
	}
}

// secretFile returns the path of a file with a secret in it.
func secretFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// shutdownTimeout is how long a stop may take by default, before the farewell to
// PostgreSQL.
func shutdownTimeout(t *testing.T) time.Duration {
	t.Helper()
	found := regexp.MustCompile(`--shutdown-timeout DURATION \(default (\w+)\)`).FindStringSubmatch(help(t, "run"))
	if found == nil {
		t.Fatal("the help of run does not say what --shutdown-timeout is by default")
	}
	d, err := time.ParseDuration(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestVariablesExist(t *testing.T) {
	known := words(help(t, "run"))
	variable := regexp.MustCompile(`OUTBOX_CDC_[A-Z_]+`)
	check := func(name string) {
		for _, v := range variable.FindAllString(readText(t, name), -1) {
			// Kubernetes makes this one up, and the file says so.
			if !known["$"+v] && v != "OUTBOX_CDC_PORT" {
				t.Errorf("%s: outbox-cdc does not read %s", name, v)
			}
		}
	}
	check("../docker-compose.yml")
	check("../docs/operations.md")
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(name, ".go") {
			check(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

//go:build linux || darwin

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

const unitFile = "systemd/outbox-cdc.service"

// readUnit returns what the unit says, by section and key, as "Service.User".
func readUnit(t *testing.T) map[string][]string {
	t.Helper()
	unit := make(map[string][]string)
	section := ""
	for line := range strings.Lines(readText(t, unitFile)) {
		line = strings.TrimSpace(line)
		key, value, isKey := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case isKey && section != "":
			unit[section+"."+key] = append(unit[section+"."+key], value)
		default:
			t.Fatalf("what is %q?", line)
		}
	}
	return unit
}

// one returns the only value of a key.
func one(t *testing.T, unit map[string][]string, key string) string {
	t.Helper()
	if len(unit[key]) != 1 {
		t.Fatalf("%s: got %q, want one value", key, unit[key])
	}
	return unit[key][0]
}

func TestUnitStartsTheBinaryAsItIs(t *testing.T) {
	unit := readUnit(t)
	command := strings.Fields(one(t, unit, "Service.ExecStart"))
	if command[0] != "/usr/local/bin/outbox-cdc" || command[1] != "run" {
		t.Fatalf("ExecStart is %q", command)
	}
	checkArguments(t, command[1:])
	if i := slices.Index(command, "--config"); i < 0 || command[i+1] != "/etc/outbox-cdc/config.yaml" {
		t.Errorf("ExecStart is %q, without the configuration that the unit speaks of", command)
	}
	variables := make(map[string]string)
	for _, variable := range unit["Service.Environment"] {
		name, value, _ := strings.Cut(variable, "=")
		credential, isCredential := strings.CutPrefix(value, "%d/")
		loaded := slices.ContainsFunc(unit["Service.LoadCredential"], func(c string) bool { return strings.HasPrefix(c, credential+":/") })
		if !isCredential || !loaded {
			t.Errorf("%s names no credential that is loaded", variable)
		}
		variables[name] = secretFile(t)
	}
	checkConfiguration(t, readText(t, "systemd/config.yaml"), variables)
}

func TestUnitRestartsWhereThatHelps(t *testing.T) {
	unit := readUnit(t)
	if got := one(t, unit, "Service.Restart"); got != "on-failure" {
		t.Errorf("Restart is %q", got)
	}
	rows := regexp.MustCompile(`(?m)^\| \[(\d)\]\(#code-\d\) \|.*\| (no|after a change) \|$`).FindAllStringSubmatch(readText(t, "../docs/exit-codes.md"), -1)
	var want []string
	for _, row := range rows {
		want = append(want, row[1])
	}
	if got := strings.Fields(one(t, unit, "Service.RestartPreventExitStatus")); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("no restart after exit codes %q, want %q", got, want)
	}
	patience, err := time.ParseDuration(one(t, unit, "Service.TimeoutStopSec"))
	if err != nil {
		t.Fatal(err)
	}
	if least := shutdownTimeout(t); patience <= least {
		t.Errorf("TimeoutStopSec is %s, want more than --shutdown-timeout, %s", patience, least)
	}
}

func TestUnitGivesNothingAway(t *testing.T) {
	unit := readUnit(t)
	for key, want := range map[string]string{
		"DynamicUser": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "ProtectHome": "yes",
		"PrivateTmp": "yes", "PrivateDevices": "yes", "MemoryDenyWriteExecute": "yes", "SystemCallFilter": "@system-service",
		"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
	} {
		if got := one(t, unit, "Service."+key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestUnitAsSystemdReadsIt(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd is not on this machine; the unit was read by the other tests only")
		return
	}
	// The binary has to be where the unit says.
	text := strings.ReplaceAll(readText(t, unitFile), "/usr/local/bin/outbox-cdc", harness.Binary(t))
	file := filepath.Join(t.TempDir(), filepath.Base(unitFile))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

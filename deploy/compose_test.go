//go:build linux || darwin

package deploy

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// composeFile is what of docker-compose.yml is checked.
type composeFile struct {
	Services map[string]service
}

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct{ Test []string }
}

// ours reports whether a service runs our binary.
func (s service) ours() bool { return s.Build.Dockerfile != "" }

func readCompose(t *testing.T) composeFile {
	t.Helper()
	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c composeFile
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	want := []string{"init", "kafka", "outbox-cdc", "postgres", "topics"}
	if got := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(got, want) {
		t.Fatalf("got services %q, want %q", got, want)
	}
	return c
}

func TestComposeUsesCommandsFlagsAndVariablesThatExist(t *testing.T) {
	for name, s := range readCompose(t).Services {
		if !s.ours() {
			continue
		}
		if len(s.Command) == 0 {
			t.Errorf("%s has no command", name)
			continue
		}
		checkArguments(t, s.Command)
	}
}

func TestComposeServicesFindEachOther(t *testing.T) {
	c := readCompose(t)
	postgres, kafka := c.Services["postgres"], c.Services["kafka"]
	for name, s := range c.Services {
		if !s.ours() {
			continue
		}
		dsn, err := url.Parse(s.Environment["OUTBOX_CDC_DSN"])
		if err != nil {
			t.Fatal(err)
		}
		password, _ := dsn.User.Password()
		got := [...]string{dsn.Host, dsn.User.Username(), password, dsn.Path}
		want := [...]string{"postgres:5432", "postgres", postgres.Environment["POSTGRES_PASSWORD"], "/" + postgres.Environment["POSTGRES_DB"]}
		if got != want {
			t.Errorf("%s: connects to %q, want %q", name, got, want)
		}
		brokers := s.Environment["OUTBOX_CDC_BROKERS"]
		if !strings.HasPrefix(brokers, "kafka:") || !strings.Contains(kafka.Environment["KAFKA_ADVERTISED_LISTENERS"], "://"+brokers) {
			t.Errorf("%s: no broker advertises %q", name, brokers)
		}
	}
	if got, want := c.Services["topics"].Command, "--bootstrap-server=kafka:19092"; !slices.Contains(got, want) {
		t.Errorf("topics runs %q, want %s", got, want)
	}
	if !slices.Contains(postgres.Command, "wal_level=logical") {
		t.Errorf("postgres runs as %q, without wal_level=logical", postgres.Command)
	}
}

func TestComposeStartsInOrder(t *testing.T) {
	c := readCompose(t)
	tests := []struct{ service, after, condition string }{
		{"init", "postgres", "service_healthy"},
		{"outbox-cdc", "init", "service_completed_successfully"},
		{"topics", "kafka", "service_healthy"},
		{"outbox-cdc", "topics", "service_completed_successfully"},
	}
	for _, tt := range tests {
		if got := c.Services[tt.service].DependsOn[tt.after].Condition; got != tt.condition {
			t.Errorf("%s waits for %s to be %q, want %q", tt.service, tt.after, got, tt.condition)
		}
		if tt.condition == "service_healthy" && len(c.Services[tt.after].Healthcheck.Test) == 0 {
			t.Errorf("%s has no health check", tt.after)
		}
	}
	if got := c.Services["init"].Command; !slices.Equal(got, []string{"init"}) {
		t.Errorf("init runs %q", got)
	}
}

func TestComposeAsTheClientReadsIt(t *testing.T) {
	if exec.Command("docker", "compose", "version").Run() != nil {
		t.Log("docker compose is not on this machine; the file was parsed as YAML only")
		return
	}
	if out, err := exec.Command("docker", "compose", "-f", "../docker-compose.yml", "config", "--quiet").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

//go:build linux || darwin

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ConnectConfig says what StartConnect starts.
type ConnectConfig struct {
	// Brokers are the addresses of the cluster that records go to.
	Brokers []string
	// Settings go into the worker's properties, over the harness's own: texts
	// as keys and values, and offsets in a file.
	Settings map[string]string
	// JVM are options of the virtual machine; nil is a small heap and a quick
	// start.
	JVM []string
	// Progress receives a line for each thing that takes time; nil is standard
	// error.
	Progress io.Writer
}

// Connect is a standalone worker of Kafka Connect with Debezium's connector for
// PostgreSQL. It has no offsets when it starts; connectors are added to it. Its
// methods may be called from any goroutine, but only one at a time may start or
// stop it.
type Connect struct {
	config  ConnectConfig
	image   connectImage
	dir     string
	port    int
	process *Process // nil before the start
}

// StartConnect starts a worker without connectors and waits until it answers.
// The caller closes it.
func StartConnect(ctx context.Context, config ConnectConfig) (*Connect, error) {
	if config.JVM == nil {
		config.JVM = []string{"-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	}
	image, err := connectImageFor(ctx, config.Progress)
	if err != nil {
		return nil, err
	}
	c := &Connect{config: config, image: image}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Connect) start(ctx context.Context) error {
	begun := time.Now()
	var err error
	if c.dir, err = tempDir("connect"); err != nil {
		return err
	}
	if c.port, err = freePort(); err != nil {
		return err
	}
	properties := filepath.Join(c.dir, "worker.properties")
	if err := os.WriteFile(properties, []byte(c.properties()), 0o644); err != nil {
		return err
	}
	line := append(slices.Clone(c.config.JVM), "-XX:+IgnoreUnrecognizedVMOptions", "-XX:-UsePerfData", "-Djava.io.tmpdir="+c.dir,
		"-Dlog4j2.configurationFile="+filepath.Join(c.image.jars, loggingFile), "-cp", filepath.Join(c.image.jars, "*"),
		"org.apache.kafka.connect.cli.ConnectStandalone", properties)
	c.process, err = StartProcess(Command{Path: c.image.java, Args: line, Dir: c.dir, Stdout: c.LogPath(), Stderr: c.LogPath()})
	if err != nil {
		return err
	}
	if err := poll(ctx, patience, 50*time.Millisecond, c.answers); err != nil {
		return fmt.Errorf("the Connect worker does not answer: %w; the end of its log:\n%s", err, tail(c.LogPath(), 20))
	}
	say(c.config.Progress, "Kafka Connect %s with Debezium %s answers on port %d after %s", connectVersion, DebeziumVersion, c.port, took(begun))
	return nil
}

// properties is the worker's configuration.
func (c *Connect) properties() string {
	const texts = "org.apache.kafka.connect.storage.StringConverter"
	settings := map[string]string{
		"bootstrap.servers":            strings.Join(c.config.Brokers, ","),
		"listeners":                    "http://" + localAddr(c.port),
		"key.converter":                texts,
		"value.converter":              texts,
		"offset.storage.file.filename": filepath.Join(c.dir, "offsets"),
		"offset.flush.interval.ms":     "1000",
		"plugin.discovery":             "service_load",
	}
	maps.Copy(settings, c.config.Settings)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&lines, "%s=%s\n", name, strings.ReplaceAll(settings[name], `\`, `\\`))
	}
	return lines.String()
}

// answers returns nil if the worker answers.
func (c *Connect) answers(ctx context.Context) error {
	if !c.process.Running() {
		return fmt.Errorf("%w: it ended as it started", errGiveUp)
	}
	return c.call(ctx, http.MethodGet, "/connectors", nil, &[]string{})
}

// Add gives the worker a connector, which starts at once.
func (c *Connect) Add(ctx context.Context, name string, settings map[string]string) error {
	if err := c.call(ctx, http.MethodPut, "/connectors/"+url.PathEscape(name)+"/config", settings, &struct{}{}); err != nil {
		return fmt.Errorf("add connector %s: %w", name, err)
	}
	return nil
}

// Remove stops a connector and takes it away. Its offsets stay.
func (c *Connect) Remove(ctx context.Context, name string) error {
	if err := c.call(ctx, http.MethodDelete, "/connectors/"+url.PathEscape(name), nil, nil); err != nil {
		return fmt.Errorf("remove connector %s: %w", name, err)
	}
	return nil
}

// Failure returns why the task of a connector has failed, "" if it has not.
func (c *Connect) Failure(ctx context.Context, name string) (string, error) {
	type state struct{ State, Trace string }
	var status struct {
		Connector state
		Tasks     []state
	}
	if err := c.call(ctx, http.MethodGet, "/connectors/"+url.PathEscape(name)+"/status", nil, &status); err != nil {
		return "", fmt.Errorf("ask for connector %s: %w", name, err)
	}
	for _, s := range append(status.Tasks, status.Connector) {
		if s.State == "FAILED" {
			return s.Trace, nil
		}
	}
	return "", nil
}

// call makes a request to the worker's REST interface.
func (c *Connect) call(ctx context.Context, method, path string, body, answer any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+localAddr(c.port)+path, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		said, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, said)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// LogPath is the file that holds what the worker has logged.
func (c *Connect) LogPath() string { return filepath.Join(c.dir, "log") }

// Process is the worker's process.
func (c *Connect) Process() *Process { return c.process }

// Stop shuts the worker down in order: what its connectors have read is
// written, and their slots are free. When ctx ends first, it is still shutting
// down.
func (c *Connect) Stop(ctx context.Context) (time.Duration, error) {
	_, took, err := c.process.Stop(ctx, syscall.SIGTERM)
	return took, err
}

// Close ends the worker and removes its files.
func (c *Connect) Close() error {
	if c.process != nil {
		if err := c.process.Kill(); err != nil {
			return err
		}
	}
	if c.dir == "" {
		return nil
	}
	return removeTemp(c.dir)
}

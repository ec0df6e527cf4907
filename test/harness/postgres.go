//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// superuser is the role that every server has from the beginning.
const superuser = "postgres"

// PostgresConfig says what StartPostgres starts. The zero value is good.
type PostgresConfig struct {
	// Version is the major version, 14 to 18; 0 is what OUTBOX_CDC_TEST_PG
	// says, or else 15.
	Version int
	// Settings go into postgresql.conf, over the harness's own, which are for
	// logical decoding, many slots and no durability (fsync=off).
	Settings map[string]string
	// TLS has the server offer encryption, with a certificate of its own.
	TLS bool
	// HBA are lines of pg_hba.conf in front of the one that trusts everybody.
	HBA []string
	// Data is a directory made by SaveData that the server starts from.
	Data string
	// Progress receives a line for each thing that takes time; nil is standard
	// error.
	Progress io.Writer
}

// Postgres is a server. Its methods may be called from any goroutine, but only
// one at a time may start or stop it.
type Postgres struct {
	config  PostgresConfig
	bin     string
	dir     string
	port    int
	account *syscall.Credential
	certs   *Certificates // nil without TLS
	process *Process      // nil before the first start
}

// StopMode is how a server is shut down.
type StopMode syscall.Signal

// The modes of pg_ctl stop, by the signal that asks for each.
const (
	Smart     = StopMode(syscall.SIGTERM) // waits for all clients to leave
	Fast      = StopMode(syscall.SIGINT)  // ends all clients, but waits for walsenders
	Immediate = StopMode(syscall.SIGQUIT) // without a checkpoint: a crash
)

// StartPostgres starts a server and waits until it answers. The caller closes
// it.
func StartPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	p := &Postgres{config: config}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// prepare finds the programs and makes the data directory.
func (p *Postgres) prepare(ctx context.Context) (err error) {
	if p.config.Version == 0 {
		if p.config.Version, err = PostgresVersion(); err != nil {
			return err
		}
	}
	if p.account, err = serverAccount(); err != nil {
		return err
	}
	if p.bin, err = postgresBin(ctx, p.config.Progress, p.config.Version); err != nil {
		return err
	}
	if p.dir, err = tempDir("postgres"); err != nil {
		return err
	}
	if p.port, err = freePort(); err != nil {
		return err
	}
	if err := own(p.dir, p.account); err != nil {
		return err
	}
	if p.config.Data != "" {
		err = copyTree(p.config.Data, p.DataDir(), p.account)
	} else {
		err = newDataDir(ctx, p.config.Progress, p.bin, p.account, p.DataDir())
	}
	if err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if p.config.TLS {
		if p.certs, err = NewCertificates(); err != nil {
			return fmt.Errorf("make certificates: %w", err)
		}
	}
	return p.configure()
}

// certificateFile holds the server's certificate and key.
const certificateFile = "server.pem"

// configure writes the server's configuration.
func (p *Postgres) configure() error {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(p.port),
		"unix_socket_directories": p.dir,
		"wal_level":               "logical",
		"max_replication_slots":   "50",
		"max_wal_senders":         "50",
		"max_connections":         "200",
		"fsync":                   "off",
		// Files of the data directory: other kinds of shared memory outlive a
		// server that was killed.
		"dynamic_shared_memory_type": "mmap",
		"log_line_prefix":            "%m [%p] %q%a@%d ",
		"timezone":                   "UTC",
	}
	if p.certs != nil {
		settings["ssl"], settings["ssl_cert_file"], settings["ssl_key_file"] = "on", certificateFile, certificateFile
		content, err := os.ReadFile(p.certs.serverKeyStore)
		if err != nil {
			return err
		}
		if err := p.write(certificateFile, string(content)); err != nil {
			return err
		}
	}
	maps.Copy(settings, p.config.Settings)
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	hba := append(slices.Clone(p.config.HBA),
		"local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust")
	return errors.Join(
		p.write("postgresql.conf", conf.String()),
		p.write("pg_hba.conf", strings.Join(hba, "\n")+"\n"),
	)
}

func (p *Postgres) write(name, content string) error {
	path := filepath.Join(p.DataDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return own(path, p.account)
}

// Start starts a server that was stopped or killed, on the same port and data,
// and waits until it answers.
func (p *Postgres) Start(ctx context.Context) error {
	if p.Running() {
		return errors.New("the PostgreSQL server is running already")
	}
	begun := time.Now()
	var err error
	p.process, err = StartProcess(Command{
		Path: filepath.Join(p.bin, "postgres"), Args: []string{"-D", p.DataDir()}, Dir: p.dir,
		Stdout: p.LogPath(), Stderr: p.LogPath(), credential: p.account,
	})
	if err != nil {
		return err
	}
	if err := p.awaitReady(ctx); err != nil {
		return fmt.Errorf("%w; the end of its log:\n%s", err, tail(p.LogPath(), 20))
	}
	say(p.config.Progress, "PostgreSQL %d answers on port %d after %s", p.config.Version, p.port, took(begun))
	return nil
}

// awaitReady waits until the server answers a query.
func (p *Postgres) awaitReady(ctx context.Context) error {
	return poll(ctx, patience, 10*time.Millisecond, func(ctx context.Context) error {
		if !p.Running() {
			return fmt.Errorf("%w: the PostgreSQL server ended as it started", errGiveUp)
		}
		return p.Exec(ctx, superuser, "SELECT 1")
	})
}

// Stop shuts the server down and returns how long it took. When ctx ends
// first, the server is still shutting down.
func (p *Postgres) Stop(ctx context.Context, mode StopMode) (time.Duration, error) {
	if p.process == nil {
		return 0, errors.New("the PostgreSQL server was never started")
	}
	_, took, err := p.process.Stop(ctx, syscall.Signal(mode))
	return took, err
}

// Restart stops the server and starts it again.
func (p *Postgres) Restart(ctx context.Context, mode StopMode) error {
	if _, err := p.Stop(ctx, mode); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Kill ends every process of the server with SIGKILL, as a power failure would.
func (p *Postgres) Kill() error { return p.process.Kill() }

// Pause stops every process of the server with SIGSTOP; its connections stay.
// For a single backend there are PausePID and ResumePID.
func (p *Postgres) Pause() error { return p.process.Pause() }

// Resume lets a paused server go on.
func (p *Postgres) Resume() error { return p.process.Resume() }

// Running reports whether the server's main process is there.
func (p *Postgres) Running() bool { return p.process != nil && p.process.Running() }

// Process is the server's main process since the last start.
func (p *Postgres) Process() *Process { return p.process }

// Close ends the server and removes its data.
func (p *Postgres) Close() error {
	var err error
	if p.Running() {
		err = p.Kill()
	}
	if p.dir != "" {
		err = errors.Join(err, removeTemp(p.dir))
	}
	if p.certs != nil {
		err = errors.Join(err, p.certs.remove())
	}
	return err
}

// Version is the server's major version.
func (p *Postgres) Version() int { return p.config.Version }

// Certificates are what a client needs to trust the server; nil without TLS.
func (p *Postgres) Certificates() *Certificates { return p.certs }

// Addr is the server's host and port.
func (p *Postgres) Addr() string { return localAddr(p.port) }

// LogPath is the file that holds the server's log, of all its starts.
func (p *Postgres) LogPath() string { return filepath.Join(p.dir, "log") }

// DataDir is the server's data directory.
func (p *Postgres) DataDir() string { return filepath.Join(p.dir, "data") }

// DSN returns the connection string of a database, as the superuser.
func (p *Postgres) DSN(database string) string {
	return p.DSNVia(p.Addr(), url.User(superuser), database)
}

// DSNVia returns the connection string for a user by way of another address, a
// proxy's.
func (p *Postgres) DSNVia(addr string, user *url.Userinfo, database string) string {
	dsn := url.URL{Scheme: "postgres", User: user, Host: addr, Path: database, RawQuery: "sslmode=disable"}
	return dsn.String()
}

// Configure changes settings in postgresql.conf. They take effect as the
// setting demands: at Reload or at the next start.
func (p *Postgres) Configure(settings map[string]string) error {
	merged := maps.Clone(p.config.Settings)
	if merged == nil {
		merged = make(map[string]string)
	}
	maps.Copy(merged, settings)
	p.config.Settings = merged
	return p.configure()
}

// Reload has the running server read its configuration again.
func (p *Postgres) Reload() error { return p.process.Signal(syscall.SIGHUP) }

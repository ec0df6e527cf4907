//go:build linux || darwin

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// defaultPostgresVersion is the major version that tests run on unless told.
const defaultPostgresVersion = 15

// npmPostgres has the release of the npm packages of each major version.
var npmPostgres = map[int]string{
	14: "14.23.0-beta.17",
	15: "15.18.0-beta.17",
	16: "16.14.0-beta.17",
	17: "17.10.0-beta.17",
	18: "18.4.0-beta.17",
}

// PostgresVersion returns the major version that OUTBOX_CDC_TEST_PG selects.
func PostgresVersion() (int, error) {
	value := os.Getenv(EnvPostgres)
	if value == "" {
		return defaultPostgresVersion, nil
	}
	version, err := strconv.Atoi(value)
	if _, known := npmPostgres[version]; err != nil || !known {
		return 0, fmt.Errorf("%s must be a major version of PostgreSQL from 14 to 18, got %q", EnvPostgres, value)
	}
	return version, nil
}

// postgresBin returns the directory that holds initdb and postgres of a major
// version: one that is on the machine, else the package client's (for the
// default version), else npm's.
func postgresBin(ctx context.Context, progress io.Writer, version int) (string, error) {
	if dir := installedPostgres(ctx, version); dir != "" {
		return dir, nil
	}
	var installErr error
	if version == defaultPostgresVersion {
		if installErr = installPostgres(ctx, progress, version); installErr == nil {
			if dir := installedPostgres(ctx, version); dir != "" {
				return dir, nil
			}
			installErr = errors.New("it was installed but is nowhere to be found")
		}
		say(progress, "PostgreSQL %d does not come through the package client (%v); trying npm", version, firstLine(installErr))
	}
	dir, err := npmPostgresBin(ctx, progress, version)
	if err != nil {
		return "", fmt.Errorf("PostgreSQL %d: %w", version, errors.Join(err, installErr))
	}
	return dir, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// installedPostgres looks for a major version on the machine.
func installedPostgres(ctx context.Context, version int) string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/%d/bin", "/usr/lib/postgresql%d/bin", "/usr/libexec/postgresql%d", "/usr/pgsql-%d/bin",
		"/opt/homebrew/opt/postgresql@%d/bin", "/usr/local/opt/postgresql@%d/bin",
	} {
		dirs = append(dirs, fmt.Sprintf(pattern, version))
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		if majorVersion(ctx, filepath.Join(dir, "postgres")) == version {
			return dir
		}
	}
	return ""
}

var versionNumber = regexp.MustCompile(`\d+`)

// majorVersion asks a server program for its version; 0 if it does not answer.
func majorVersion(ctx context.Context, postgres string) int {
	out, err := exec.CommandContext(ctx, postgres, "--version").Output()
	if err != nil {
		return 0
	}
	version, _ := strconv.Atoi(versionNumber.FindString(string(out)))
	return version
}

// installPostgres installs a major version with the package client. Debian's
// package would at once start a server of its own, which nobody asked for.
func installPostgres(ctx context.Context, progress io.Writer, version int) error {
	if _, err := exec.LookPath("apt-get"); err == nil {
		if err := refuseCluster(ctx, progress); err != nil {
			return err
		}
	}
	v := strconv.Itoa(version)
	return install(ctx, progress, map[string][]string{
		"apt-get": {"postgresql-" + v}, "apk": {"postgresql" + v}, "dnf": {"postgresql" + v + "-server"}, "brew": {"postgresql@" + v},
	})
}

// refuseCluster tells Debian's packages to create no server, unless they have
// been there before and may have been told otherwise.
func refuseCluster(ctx context.Context, progress io.Writer) error {
	const config = "/etc/postgresql-common/createcluster.conf"
	if _, err := os.Stat(config); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := install(ctx, progress, map[string][]string{"apt-get": {"postgresql-common"}}); err != nil {
		return err
	}
	return runAsRoot(ctx, nil, "sh", "-c", "echo 'create_main_cluster = false' > "+config)
}

// npmPostgresBin returns the programs of a major version from npm, which are
// downloaded into the cache the first time.
func npmPostgresBin(ctx context.Context, progress io.Writer, version int) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	release, known := npmPostgres[version]
	if !known {
		return "", errors.New("only 14 to 18 are known")
	}
	name := "@embedded-postgres/" + npmPlatform()
	dir := filepath.Join(cache, "postgres", release)
	err = once(dir, func(tmp string) error {
		npm, err := find(ctx, progress, needNPM)
		if err != nil {
			return err
		}
		begun := time.Now()
		say(progress, "fetching PostgreSQL %s (npm, about 60 MB) ...", release)
		if err := run(ctx, tmp, nil, npm, "install", "--prefix", tmp, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", name+"@"+release); err != nil {
			return err
		}
		if err := completePackage(filepath.Join(tmp, "node_modules", name)); err != nil {
			return err
		}
		say(progress, "fetched PostgreSQL %s in %s", release, took(begun))
		return nil
	})
	return filepath.Join(dir, "node_modules", name, "native", "bin"), err
}

// npmPlatform is the machine's kind as the npm packages' names have it.
func npmPlatform() string {
	arch, renamed := map[string]string{"amd64": "x64", "386": "ia32", "ppc64le": "ppc64"}[runtime.GOARCH]
	if !renamed {
		arch = runtime.GOARCH
	}
	return runtime.GOOS + "-" + arch
}

// completePackage makes the symbolic links that npm packages cannot carry, and
// lets every user read and run what is in the package. Without the links the
// server does not find its libraries.
func completePackage(dir string) error {
	var links []struct{ Source, Target string }
	list, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(list, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, link := range links {
		target := filepath.Join(dir, link.Target)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		source, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return err
		}
		if err := os.Symlink(source, target); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	bin := filepath.Join(dir, "native", "bin")
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() || filepath.Dir(path) == bin {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

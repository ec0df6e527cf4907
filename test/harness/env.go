//go:build linux || darwin

package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The environment variables that the harness reads. Everything else is
// configured in code.
const (
	// EnvPostgres selects the major version of PostgreSQL, 14 to 18, where a
	// PostgresConfig does not.
	EnvPostgres = "OUTBOX_CDC_TEST_PG"
	// EnvLong set to 1 has tests run at full length: see Long.
	EnvLong = "OUTBOX_CDC_TEST_LONG"
	// EnvCache overrides the directory of CacheDir.
	EnvCache = "OUTBOX_CDC_TEST_CACHE"
	// EnvProgressFD is the number of an inherited file descriptor to which the
	// progress lines go instead of standard error, which "go test" holds back
	// until a package is done.
	EnvProgressFD = "OUTBOX_CDC_TEST_PROGRESS_FD"
	// envSweeper makes a process the sweeper of its parent.
	envSweeper = "OUTBOX_CDC_TEST_SWEEPER"
)

// Long reports whether cases that take longer than some 20 seconds are to be
// run too.
func Long() bool { return os.Getenv(EnvLong) == "1" }

// modulePath is how the root of the repository is recognised.
const modulePath = "module github.com/outbox-cdc/outbox-cdc"

// RepositoryRoot returns the directory of the module's go.mod, looked for from
// the working directory upwards.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(b), modulePath) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the repository's go.mod is in no directory above the working directory")
		}
		dir = parent
	}
}

// CacheDir returns the directory that keeps downloaded servers between runs,
// and creates it. It is the value of OUTBOX_CDC_TEST_CACHE, or .cache in the
// root of the repository, or, where the account that runs the servers cannot
// reach that, a directory of this user's in the system's temporary directory.
func CacheDir() (string, error) {
	if dir := os.Getenv(EnvCache); dir != "" {
		return dir, os.MkdirAll(dir, 0o755)
	}
	if root, err := RepositoryRoot(); err == nil && reachable(root) {
		dir := filepath.Join(root, ".cache")
		if err := os.MkdirAll(dir, 0o755); err == nil && syscall.Access(dir, accessWrite) == nil {
			return dir, nil
		}
	}
	dir := filepath.Join(tempRoot(), "outbox-cdc-cache-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Getuid() {
		return "", fmt.Errorf("cache directory %s belongs to somebody else; set %s to another directory", dir, EnvCache)
	}
	return dir, nil
}

// accessWrite is W_OK of access(2).
const accessWrite = 2

// reachable reports whether the servers can enter dir: whether every user can,
// when they run under another account than ours.
func reachable(dir string) bool {
	for os.Getuid() == 0 {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return true
}

// tempRoot is the system's temporary directory, or /tmp where the servers
// cannot enter that.
func tempRoot() string {
	if dir := os.TempDir(); reachable(dir) {
		return dir
	}
	return "/tmp"
}

// serverAccount returns the credential for a server that refuses to run as
// root: nil for an ordinary user; otherwise the account postgres or nobody.
func serverAccount() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("account %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root and there is no account postgres or nobody; run as an ordinary user")
}

// defaultProgress is where progress lines go unless a Config says otherwise.
// The descriptor must not leak into servers: whoever reads its other end waits
// until the last holder is gone.
var defaultProgress = sync.OnceValue(func() io.Writer {
	fd, err := strconv.Atoi(os.Getenv(EnvProgressFD))
	if err != nil {
		return os.Stderr
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "progress")
})

// say writes one progress line.
func say(w io.Writer, format string, args ...any) {
	if w == nil {
		w = defaultProgress()
	}
	fmt.Fprintf(w, "harness: "+format+"\n", args...)
}

// took is a duration as progress lines show it.
func took(since time.Time) string {
	return fmt.Sprintf("%.1f s", time.Since(since).Seconds())
}

//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// builtBinary is the binary of this process, built with the first call.
var builtBinary struct {
	sync.Mutex
	path string
}

// BuildBinary builds outbox-cdc as it is released, static and without the race
// detector, and returns its path. It is built once per process and removed with
// it. progress receives a line; nil is standard error.
func BuildBinary(ctx context.Context, progress io.Writer) (string, error) {
	builtBinary.Lock()
	defer builtBinary.Unlock()
	if builtBinary.path != "" {
		return builtBinary.path, nil
	}
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	dir, err := tempDir("binary")
	if err != nil {
		return "", err
	}
	begun := time.Now()
	path := filepath.Join(dir, "outbox-cdc")
	if err := run(ctx, root, nil, "deploy/build.sh", path); err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	say(progress, "built outbox-cdc (%.1f MB) in %s", float64(info.Size())/1e6, took(begun))
	builtBinary.path = path
	return path, nil
}

// Relay is the outbox-cdc binary as a process, or what one invocation of it has
// left.
type Relay struct {
	*Process
	dir string
}

// StartRelay starts the binary with arguments and additional variables of the
// environment. Its output is kept until Close. It sees no other
// OUTBOX_CDC_* or PG* variables.
func StartRelay(ctx context.Context, env []string, args ...string) (*Relay, error) {
	binary, err := BuildBinary(ctx, nil)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("relay")
	if err != nil {
		return nil, err
	}
	process, err := StartProcess(Command{
		Path: binary, Args: args, Env: env, Dir: dir, Stdout: filepath.Join(dir, "stdout"), Stderr: filepath.Join(dir, "stderr"),
		clean: true,
	})
	if err != nil {
		return nil, errors.Join(err, removeTemp(dir))
	}
	return &Relay{Process: process, dir: dir}, nil
}

// Close ends the process and removes its output.
func (r *Relay) Close() error {
	if err := r.Kill(); err != nil {
		return err
	}
	return removeTemp(r.dir)
}

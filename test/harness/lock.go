//go:build linux || darwin

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// once makes the cache entry dir by calling build, unless it is there already.
// Test processes that want the same entry at the same time wait for each
// other. build works in a directory that becomes dir when it has succeeded, so
// an entry is complete or absent.
func once(dir string, build func(tmp string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	tmp := dir + ".part"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	if err := build(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// lock waits for the lock of a file, which it creates, and returns what gives
// it back.
func lock(name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { file.Close() }, nil
}

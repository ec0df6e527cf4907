//go:build linux || darwin

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// signalTree sends sig to a process and to everything below it. A server's
// children have sessions of their own, so its process group is not enough. The
// parent comes first: once it is stopped or dead it starts no more children.
func signalTree(pid int, sig syscall.Signal) error {
	below := descendants(pid)
	err := syscall.Kill(pid, sig)
	for _, p := range append(below, descendants(pid)...) {
		if e := syscall.Kill(p, sig); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// killTree ends a process and everything below it, and waits until the latter
// are gone. Waiting for pid itself is its parent's business.
func killTree(pid int) error {
	below := descendants(pid)
	if err := signalTree(pid, syscall.SIGKILL); err != nil {
		return err
	}
	for _, p := range below {
		err := poll(context.Background(), patience, time.Millisecond, func(context.Context) error {
			if err := syscall.Kill(p, 0); errors.Is(err, syscall.ESRCH) || isZombie(p) {
				return nil
			}
			return fmt.Errorf("process %d is still there", p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isZombie reports whether a process has ended but was not waited for, which
// some containers' first process never does. Without /proc it is not known.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return err == nil && len(fields) > 0 && fields[0][0] == 'Z'
}

// descendants returns the processes below pid.
func descendants(pid int) []int {
	children := make(map[int][]int)
	for child, parent := range parents() {
		children[parent] = append(children[parent], child)
	}
	var below []int
	for next := children[pid]; len(next) > 0; {
		below = append(below, next...)
		var deeper []int
		for _, p := range next {
			deeper = append(deeper, children[p]...)
		}
		next = deeper
	}
	return below
}

// parents maps every process to its parent: from /proc where it exists, else
// from ps.
func parents() map[int]int {
	parent := make(map[int]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		// The command's name, in brackets, may hold anything; the fields
		// behind it are the state and the parent.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if err1 != nil || len(fields) < 2 {
			continue
		}
		if ppid, err := strconv.Atoi(fields[1]); err == nil {
			parent[pid] = ppid
		}
	}
	if len(stats) > 0 {
		return parent
	}
	out, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		if n, _ := fmt.Sscan(line, &pid, &ppid); n == 2 {
			parent[pid] = ppid
		}
	}
	return parent
}

// removeServerDir removes a temporary directory, and the System V shared
// memory of a PostgreSQL in it that was killed and could not do so itself.
func removeServerDir(dir string) error {
	removeSharedMemory(filepath.Join(dir, "data"))
	return os.RemoveAll(dir)
}

// removeSharedMemory removes the segment that line 7 of a data directory's
// postmaster.pid names by key and id, if there is one.
func removeSharedMemory(dataDir string) {
	pidFile, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	lines := strings.Split(string(pidFile), "\n")
	if err != nil || len(lines) < 7 {
		return
	}
	var key, id int
	if n, _ := fmt.Sscan(lines[6], &key, &id); n == 2 {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // it may be gone already
	}
}

//go:build linux || darwin

package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc, 1/USER_HZ, which is the same on
// every architecture that Go supports.
const clockTick = 10 * time.Millisecond

// CPU is the processor time that the process has used, user and system. Of a
// running process it is known on Linux only.
func (p *Process) CPU() (time.Duration, error) {
	if !p.Running() {
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), nil
	}
	_, used, err := readStat(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("processor time of pid %d: %w", p.PID(), err)
	}
	return used, nil
}

// ThreadsCPU is the processor time of those threads of the running process whose
// names contain part. It is known on Linux only.
func (p *Process) ThreadsCPU(part string) (time.Duration, error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
	if err == nil && len(stats) == 0 {
		err = errors.New("its threads are not known")
	}
	if err != nil {
		return 0, fmt.Errorf("processor time of pid %d: %w", p.PID(), err)
	}
	var all time.Duration
	for _, stat := range stats {
		// A thread may have ended meanwhile.
		if name, used, err := readStat(stat); err == nil && strings.Contains(name, part) {
			all += used
		}
	}
	return all, nil
}

// readStat reads the name and the processor time of a process or a thread:
// proc(5), where the fields are numbered from 3 behind the bracketed name.
func readStat(path string) (name string, used time.Duration, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", 0, err
	}
	opened, closed := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	fields := strings.Fields(string(b[closed+1:]))
	if opened < 0 || len(fields) < 13 {
		return "", 0, fmt.Errorf("%s has %d fields", path, len(fields))
	}
	var ticks time.Duration
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return "", 0, err
		}
		ticks += time.Duration(n)
	}
	return string(b[opened+1 : closed]), ticks * clockTick, nil
}

// PeakRSS is the most memory that the process has had resident, in bytes. Of a
// running process it is known on Linux only.
func (p *Process) PeakRSS() (int64, error) {
	if !p.Running() {
		usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			return 0, fmt.Errorf("peak memory of pid %d is unknown", p.PID())
		}
		if runtime.GOOS == "darwin" {
			return usage.Maxrss, nil // getrusage(2): bytes there
		}
		return usage.Maxrss << 10, nil
	}
	return p.status("VmHWM:")
}

// RSS is the memory that the running process has resident now, in bytes. It is
// known on Linux only.
func (p *Process) RSS() (int64, error) { return p.status("VmRSS:") }

// status reads one line of /proc/PID/status, which counts in kibibytes.
func (p *Process) status(name string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("memory of pid %d: %w", p.PID(), err)
	}
	for line := range strings.Lines(string(b)) {
		value, found := strings.CutPrefix(line, name)
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("memory of pid %d: %w", p.PID(), err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("memory of pid %d: no %s", p.PID(), name)
}

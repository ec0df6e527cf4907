//go:build linux || darwin

package harness

import (
	"bytes"
	"fmt"
	"os"
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
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("processor time of pid %d: %w", p.PID(), err)
	}
	// The fields are numbered from 3 behind the bracketed name: proc(5).
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("processor time of pid %d: %d fields in stat", p.PID(), len(fields))
	}
	var ticks time.Duration
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time of pid %d: %w", p.PID(), err)
		}
		ticks += time.Duration(n)
	}
	return ticks * clockTick, nil
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

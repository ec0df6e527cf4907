//go:build linux || darwin

package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machine is where the figures hold.
type machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	MemoryGiB int    `json:"memory_gib,omitempty"` // Linux only, as what follows
	Kernel    string `json:"kernel,omitempty"`
	// ReceiveBuffer is net.core.rmem_max, in bytes: it decides how the socket
	// of a reader can be paced.
	ReceiveBuffer int    `json:"net_core_rmem_max,omitempty"`
	Go            string `json:"go"`
}

func thisMachine() machine {
	m := machine{Processor: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if name := procValue("/proc/cpuinfo", "model name"); name != "" {
		m.Processor = name
	}
	if kib, err := strconv.Atoi(strings.TrimSuffix(procValue("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.MemoryGiB = (kib + 1<<19) >> 20
	}
	m.Kernel = procText("/proc/sys/kernel/osrelease")
	m.ReceiveBuffer, _ = strconv.Atoi(procText("/proc/sys/net/core/rmem_max")) // 0 where it is not known
	return m
}

func procText(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// procValue returns the first value of a name in a file of lines "name: value".
func procValue(file, name string) string {
	for line := range strings.Lines(procText(file)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

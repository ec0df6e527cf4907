//go:build linux || darwin

package harness

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A sweeper is a child process that outlives this one. It is told through a
// pipe which processes and directories exist. When the pipe ends, because this
// process has exited or was killed, it ends the processes and removes the
// directories that it still knows of.
type sweeper struct {
	mu   sync.Mutex // guards pipe and err
	pipe io.Writer
	err  error
}

// theSweeper starts the sweeper of this process with the first thing to guard.
var theSweeper = sync.OnceValue(startSweeper)

// The words of the protocol, each in front of a pid or a path on a line.
const (
	wordProcess = "process"
	wordEnded   = "ended"
	wordDir     = "dir"
	wordRemoved = "removed"
)

// init turns a process that was started as a sweeper into one, whatever
// program imports this package.
func init() {
	if os.Getenv(envSweeper) != "" {
		sweep(os.Stdin)
		os.Exit(0)
	}
}

func startSweeper() *sweeper {
	s := &sweeper{}
	exe, err := os.Executable()
	if err != nil {
		s.err = err
		return s
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envSweeper+"=1")
	// A session of its own: what ends our process group or terminal must not
	// end the sweeper. It holds none of our descriptors, so nobody who waits
	// for our output waits for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	pipe, err := cmd.StdinPipe()
	if err != nil {
		s.err = err
		return s
	}
	s.pipe, s.err = pipe, cmd.Start()
	return s
}

// tell sends one line.
func (s *sweeper) tell(word, what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.pipe, "%s %s\n", word, what)
	}
	if s.err != nil {
		return fmt.Errorf("sweeper of leftovers: %w", s.err)
	}
	return nil
}

// guardProcess has a process ended with this one.
func guardProcess(pid int) error { return theSweeper().tell(wordProcess, strconv.Itoa(pid)) }

// forgetProcess says that a process has ended and its pid may be another's.
func forgetProcess(pid int) { _ = theSweeper().tell(wordEnded, strconv.Itoa(pid)) }

// tempDir creates a temporary directory that every user can enter and that is
// removed with this process.
func tempDir(name string) (string, error) {
	dir, err := os.MkdirTemp(tempRoot(), "outbox-cdc-"+name+"-")
	if err != nil {
		return "", err
	}
	if err := theSweeper().tell(wordDir, dir); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// removeTemp removes a directory made by tempDir.
func removeTemp(dir string) error {
	err := removeServerDir(dir)
	if err == nil {
		_ = theSweeper().tell(wordRemoved, dir)
	}
	return err
}

// sweep is the sweeper's life: it reads until the end of its parent, and then
// tidies up.
func sweep(from io.Reader) {
	processes, dirs := make(map[int]bool), make(map[string]bool)
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		word, what, _ := strings.Cut(lines.Text(), " ")
		pid, _ := strconv.Atoi(what)
		switch word {
		case wordProcess:
			processes[pid] = true
		case wordEnded:
			delete(processes, pid)
		case wordDir:
			dirs[what] = true
		case wordRemoved:
			delete(dirs, what)
		}
	}
	for pid := range processes {
		_ = signalTree(pid, syscall.SIGKILL) // nobody is left to hear of it
	}
	for dir := range dirs {
		// A process that was just killed may still be writing.
		for range 100 {
			if removeServerDir(dir) == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

//go:build linux || darwin

package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// envVictim makes this test binary a process that starts things and waits to be
// killed.
const envVictim = "OUTBOX_CDC_TEST_VICTIM"

// victim starts a server with a paused backend and a program with a child, and
// tells the test about them: a pid or a directory on each line.
func victim() error {
	ctx := context.Background()
	p, err := StartPostgres(ctx, PostgresConfig{})
	if err != nil {
		return err
	}
	pid, err := QueryValue[int](ctx, p, superuser, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
	if err != nil {
		return err
	}
	if err := PausePID(pid); err != nil {
		return err
	}
	sh, err := StartProcess(Command{Path: "/bin/sh", Args: []string{"-c", "sleep 1000; true"}})
	if err != nil {
		return err
	}
	child := 0
	err = poll(ctx, patience, 5*time.Millisecond, func(context.Context) error {
		below := descendants(sh.PID())
		if len(below) == 0 {
			return errors.New("the shell has started nothing yet")
		}
		child = below[0]
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Println(p.dir)
	fmt.Println(p.Process().PID())
	fmt.Println(pid)
	fmt.Println(sh.PID())
	fmt.Println(child)
	os.Stdout.Close()
	select {}
}

func TestNothingIsLeftOfAKilledProcess(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envVictim+"=1")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(bufio.NewReader(stdout))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	lines := strings.Fields(string(text))
	if len(lines) != 5 {
		t.Fatalf("the process told %q, want a directory and four pids", text)
	}
	Eventually(t, 10*time.Second, func() error {
		if _, err := os.Stat(lines[0]); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("directory %s is left (%v)", lines[0], err)
		}
		for _, line := range lines[1:] {
			pid, err := strconv.Atoi(line)
			if err != nil {
				return err
			}
			if err := syscall.Kill(pid, 0); err == nil && !isZombie(pid) {
				return fmt.Errorf("process %d is left", pid)
			}
		}
		return nil
	})
}

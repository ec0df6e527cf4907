//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// newDataDir makes a fresh data directory at dst. initdb runs once per version;
// after that its result is copied, which takes a tenth of the time.
func newDataDir(ctx context.Context, progress io.Writer, bin string, account *syscall.Credential, dst string) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	version, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return fmt.Errorf("%s/postgres --version: %w", bin, err)
	}
	template := filepath.Join(cache, "initdb", safeName(string(version)))
	err = once(template, func(tmp string) error {
		begun := time.Now()
		if err := own(tmp, account); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"),
			"-D", filepath.Join(tmp, "data"), "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions")
		cmd.Dir = tmp
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb: %w: %s", err, out)
		}
		say(progress, "initialised a data directory with %s in %s", safeName(string(version)), took(begun))
		return nil
	})
	if err != nil {
		return err
	}
	return copyTree(filepath.Join(template, "data"), dst, account)
}

// safeName makes a file name of what a program printed as its version.
func safeName(s string) string {
	name := []byte(s)
	for i, c := range name {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.':
		default:
			name[i] = '-'
		}
	}
	for len(name) > 0 && name[len(name)-1] == '-' {
		name = name[:len(name)-1]
	}
	return string(name)
}

// copyTree copies a directory and gives the copy to account.
func copyTree(src, dst string, account *syscall.Credential) error {
	return filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		target := filepath.Join(dst, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			err = os.Mkdir(target, info.Mode().Perm())
		case d.Type()&fs.ModeSymlink != 0:
			var link string
			if link, err = os.Readlink(path); err == nil {
				err = os.Symlink(link, target)
			}
		case d.Type().IsRegular():
			err = copyFile(path, target, info.Mode().Perm())
		default:
			return nil // a socket of a server that was killed
		}
		if err != nil {
			return err
		}
		return own(target, account)
	})
}

func copyFile(src, dst string, mode fs.FileMode) error {
	from, err := os.Open(src)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// own gives a file to the account that a server runs under.
func own(path string, account *syscall.Credential) error {
	if account == nil {
		return nil
	}
	return os.Lchown(path, int(account.Uid), int(account.Gid))
}

// SaveData copies the data directory of a stopped server into a temporary
// directory, for RestoreData or PostgresConfig.Data, and returns its path. It
// is removed when this process ends.
func (p *Postgres) SaveData() (string, error) {
	if p.Running() {
		return "", errors.New("the PostgreSQL server must be stopped before its data is copied")
	}
	dir, err := tempDir("pgdata")
	if err != nil {
		return "", err
	}
	saved := filepath.Join(dir, "saved")
	return saved, copyTree(p.DataDir(), saved, nil)
}

// RestoreData puts a copy made by SaveData in place of the data of a stopped
// server: a restored backup. The server keeps its port and settings.
func (p *Postgres) RestoreData(saved string) error {
	if p.Running() {
		return errors.New("the PostgreSQL server must be stopped before its data is replaced")
	}
	removeSharedMemory(p.DataDir())
	if err := os.RemoveAll(p.DataDir()); err != nil {
		return err
	}
	if err := copyTree(saved, p.DataDir(), p.account); err != nil {
		return err
	}
	return p.configure()
}

//go:build linux || darwin

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A packageClient is the program that installs software on a kind of system.
type packageClient struct {
	program string
	refresh []string // brings the list of packages up to date; may be empty
	install []string // the packages' names follow
	env     []string
}

// packageClients is in the order in which they are looked for.
var packageClients = []packageClient{
	{program: "apt-get", refresh: []string{"update", "-q"}, install: []string{"install", "-q", "-y", "--no-install-recommends"}, env: []string{"DEBIAN_FRONTEND=noninteractive"}},
	{program: "apk", install: []string{"add", "--no-cache"}},
	{program: "dnf", install: []string{"install", "-y"}},
	{program: "brew", install: []string{"install"}},
}

// A need is a program and the packages that bring it.
type need struct {
	program  string
	packages map[string][]string // by package client
	// elsewhere is a directory outside PATH that a client installs it to.
	elsewhere string
	// harmless is an argument with which the program ends at once and well;
	// empty is -version.
	harmless string
}

var (
	needJava = need{program: "java", elsewhere: "/opt/homebrew/opt/openjdk@17/bin", packages: map[string][]string{
		"apt-get": {"default-jre-headless"}, "apk": {"openjdk17-jre-headless"}, "dnf": {"java-17-openjdk-headless"}, "brew": {"openjdk@17"},
	}}
	needMaven = need{program: "mvn", packages: map[string][]string{
		"apt-get": {"maven"}, "apk": {"maven"}, "dnf": {"maven"}, "brew": {"maven"},
	}}
	needNPM = need{program: "npm", packages: map[string][]string{
		"apt-get": {"npm"}, "apk": {"npm"}, "dnf": {"npm"}, "brew": {"node"},
	}}
)

// find returns the path of a program and installs it first where it is missing.
func find(ctx context.Context, progress io.Writer, n need) (string, error) {
	if path := n.path(); path != "" {
		return path, nil
	}
	if err := install(ctx, progress, n.packages); err != nil {
		return "", fmt.Errorf("%s is not on this machine: %w", n.program, err)
	}
	if path := n.path(); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("%s was installed but is not in PATH", n.program)
}

// path looks for the program. On macOS there is always a java, which answers
// only where a real one is installed.
func (n need) path() string {
	candidates := []string{n.program}
	if n.elsewhere != "" {
		candidates = append(candidates, filepath.Join(n.elsewhere, n.program))
	}
	for _, candidate := range candidates {
		path, err := exec.LookPath(candidate)
		if err == nil && exec.Command(path, cmp.Or(n.harmless, "-version")).Run() == nil {
			return path
		}
	}
	return ""
}

// install installs packages, named for each package client, with the client
// that this machine has. Package clients do not wait for each other, so test
// processes do.
func install(ctx context.Context, progress io.Writer, packages map[string][]string) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(cache, "install.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	for _, client := range packageClients {
		if _, err := exec.LookPath(client.program); err != nil {
			continue
		}
		names := packages[client.program]
		if len(names) == 0 {
			return fmt.Errorf("%s has no package for it", client.program)
		}
		begun := time.Now()
		say(progress, "installing %s with %s ...", strings.Join(names, " "), client.program)
		if len(client.refresh) > 0 {
			if err := client.run(ctx, client.refresh); err != nil {
				return err
			}
		}
		if err := client.run(ctx, append(client.install[:len(client.install):len(client.install)], names...)); err != nil {
			return err
		}
		say(progress, "installed %s in %s", strings.Join(names, " "), took(begun))
		return nil
	}
	return errors.New("none of apt-get, apk, dnf and brew is there to install it; install it by hand")
}

// run runs the client, as root where it needs that.
func (c packageClient) run(ctx context.Context, args []string) error {
	argv := append([]string{c.program}, args...)
	if c.program == "brew" {
		return run(ctx, "", c.env, argv...)
	}
	return runAsRoot(ctx, c.env, argv...)
}

// runAsRoot runs a program as root, where this process is or sudo grants it
// without asking.
func runAsRoot(ctx context.Context, env []string, argv ...string) error {
	if os.Getuid() != 0 {
		argv = append([]string{"sudo", "-n"}, argv...)
	}
	if err := run(ctx, "", env, argv...); err != nil {
		return fmt.Errorf("%w; run it by hand as root", err)
	}
	return nil
}

// run runs a program to its end. The error holds the end of what it printed.
func run(ctx context.Context, dir string, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return nil
}

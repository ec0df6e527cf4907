package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestFaultsOfSecretFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	empty, newline := write(t, "empty", ""), write(t, "newline", "\n")
	large := write(t, "large", strings.Repeat("x", 1<<20))
	dsn := write(t, "dsn", "host=127.0.0.1 port=1")
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"missing", []string{"--dsn-file", missing}, "--dsn-file must name a file that can be read: open " + missing + ": no such file or directory"},
		{"empty", []string{"--password-file", empty}, "--password-file must name a file with the secret in it, got " + empty + ", which is empty"},
		{"a newline", []string{"--password-file", newline}, "--password-file must name a file with the secret in it, got " + newline + ", which is empty"},
		{"another file", []string{"--password-file", large}, "--password-file must name a file with nothing but the secret, got " + large + " of more than 64 KiB"},
		{"both", []string{"--dsn", "host=127.0.0.1", "--dsn-file", dsn}, "--dsn and --dsn-file must not be given both"},
		{"both in the file", []string{"--config", write(t, "c.yaml", "password: secret\npassword-file: /none\n")}, "--password and --password-file must not be given both (--password: FILE:1; --password-file: FILE:2)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := strings.ReplaceAll(tc.want, "FILE", tc.args[len(tc.args)-1])
			wantFaults(t, append([]string{"slot", "list"}, tc.args...), want)
		})
	}
}

// Of a secret and the file that stands for it, the one from the higher source
// counts, and the other one is not even looked at.
func TestPrecedenceOfSecrets(t *testing.T) {
	secret := func(name, content string) string { return write(t, name, content) }
	for _, tc := range []struct {
		name       string
		env        map[string]string
		args       []string
		file, want string
	}{
		{"the file alone", nil, []string{"--password-file", secret("p", "s3cret\n")}, "", "s3cret"},
		{"a line of Windows", nil, []string{"--password-file", secret("p", "s3cret\r\n")}, "", "s3cret"},
		{"no newline", nil, []string{"--password-file", secret("p", "s3cret")}, "", "s3cret"},
		{"only the last newline", nil, []string{"--password-file", secret("p", " s3\ncret \n\n")}, "", " s3\ncret \n"},
		{"file as an argument, value in the environment", map[string]string{"OUTBOX_CDC_PASSWORD": "low"},
			[]string{"--password-file", secret("p", "high")}, "", "high"},
		{"value in the environment, file in the configuration", map[string]string{"OUTBOX_CDC_PASSWORD": "high"}, nil, "password-file: /missing", "high"},
		{"file in the environment, value in the configuration", map[string]string{"OUTBOX_CDC_PASSWORD_FILE": secret("p", "high")}, nil, "password: low", "high"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, value := range tc.env {
				t.Setenv(name, value)
			}
			t.Setenv("OUTBOX_CDC_CONFIG", write(t, "relay.yaml", tc.file))
			var got string
			runOptions(t, func(r *resolution) {
				got = findOption(r.options, "password").value
				if r.faults != nil {
					t.Errorf("got %v", r.faults)
				}
			}, tc.args...)
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Only an argument can be seen by others, so only that warns.
func TestPasswordInArgument(t *testing.T) {
	const remark = "can be read by every user of this machine"
	for _, tc := range []struct {
		name  string
		args  []string
		warns string
	}{
		{"URL", []string{"--dsn", "postgres://relay:secret@127.0.0.1:1/shop"}, "the password in --dsn"},
		{"URL without", []string{"--dsn", "postgres://relay@127.0.0.1:1/shop"}, ""},
		{"URL with a port, without", []string{"--dsn", "postgres://127.0.0.1:1/shop?user=relay"}, ""},
		{"parameter of a URL", []string{"--dsn", "postgres://127.0.0.1:1/shop?user=relay&password=secret"}, "the password in --dsn"},
		{"key of a URL", []string{"--dsn", "postgres://127.0.0.1:1/shop?user=relay&sslpassword=secret"}, "the password in --dsn"},
		{"keywords", []string{"--dsn", "host=127.0.0.1 port=1 user=relay password = 'secret'"}, "the password in --dsn"},
		{"keywords without", []string{"--dsn", "host=127.0.0.1 port=1 user=relay passfile=/none"}, ""},
		{"password", []string{"--dsn", "host=127.0.0.1 port=1", "--password", "secret"}, "--password"},
		{"files", []string{"--dsn-file", write(t, "dsn", "postgres://relay:secret@127.0.0.1:1/shop"), "--password-file", write(t, "p", "secret")}, ""},
		{"configuration", []string{"--config", write(t, "relay.yaml", "dsn: postgres://relay:secret@127.0.0.1:1/shop\npassword: secret\n")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := execute(t, append([]string{"slot", "list"}, tc.args...)...)
			if got.code != codePostgres {
				t.Errorf("got %+v, want exit code %d", got, codePostgres)
			}
			if warns := strings.Contains(got.err, tc.warns+" "+remark); warns != (tc.warns != "") || !warns && strings.Contains(got.err, remark) {
				t.Errorf("got %q, want a warning of %q", got.err, tc.warns)
			}
			if strings.Contains(got.err, "secret") {
				t.Errorf("the password is shown: %q", got.err)
			}
		})
	}
	t.Setenv("OUTBOX_CDC_DSN", "postgres://relay:secret@127.0.0.1:1/shop")
	t.Setenv("OUTBOX_CDC_PASSWORD", "secret")
	if got := execute(t, "slot", "list"); strings.Contains(got.err, remark) || strings.Contains(got.err, "secret") {
		t.Errorf("from the environment: got %q", got.err)
	}
}

// A connection string without its flag is not repeated with its password.
func TestPasswordInTheWrongPlace(t *testing.T) {
	const dsn = "postgres://relay:s3cret@db/shop"
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"slot", "list", dsn}, `unexpected argument "postgres://relay:xxxxx@db/shop"; see outbox-cdc slot list --help`},
		{[]string{"slot", "list", "--", "password=s3cret"}, `unexpected argument "password=xxxxx"; see outbox-cdc slot list --help`},
		{[]string{dsn}, `unknown command "postgres://relay:xxxxx@db/shop"; see outbox-cdc --help`},
		{[]string{"slot", "list", "--dns=" + dsn}, "unknown flag --dns (did you mean --dsn?); see outbox-cdc slot list --help"},
		{[]string{"slot", "list", "--=" + dsn}, `"--" is no flag; see outbox-cdc slot list --help`},
	} {
		wantFaults(t, tc.args, tc.want)
	}
}

// runOptions resolves the options of run and hands them to do.
func runOptions(t *testing.T, do func(*resolution), args ...string) {
	t.Helper()
	command := (&program{}).runCommand()
	command.Before = prepare
	command.Action = func(c *cli.Context) error {
		do(resolved(c))
		return nil
	}
	app := &cli.App{Commands: []*cli.Command{command}}
	if err := app.RunContext(t.Context(), append([]string{"outbox-cdc", "run"}, args...)); err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"
)

// maxSecretBytes is how large the file of a secret may be.
const maxSecretBytes = 64 << 10

// readSecrets reads the files that stand for secrets.
func (r *resolution) readSecrets() {
	for _, o := range r.options {
		if !o.hasFile() {
			continue
		}
		companion := findOption(r.options, o.name+fileSuffix)
		if companion == nil || companion.value == "" {
			continue
		}
		switch {
		case o.value == "" || o.source.kind < companion.source.kind:
			r.readSecret(o, companion)
		case o.source.kind == companion.source.kind:
			r.fault("--%s and --%s must not be given both", o.name, companion.name)
		default:
			companion.value, companion.source = "", source{}
		}
	}
}

// readSecret takes the value of an option from the file that its companion
// names. The newline that an editor leaves at the end is not part of it.
func (r *resolution) readSecret(o, companion *option) {
	content, err := readUpTo(companion.value, maxSecretBytes)
	if err != nil {
		r.fault("--%s must name a file that can be read: %w", companion.name, err)
		return
	}
	if len(content) > maxSecretBytes {
		r.fault("--%s must name a file with nothing but the secret, got %s of more than %d KiB", companion.name, companion.value, maxSecretBytes>>10)
		return
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if secret == "" {
		r.fault("--%s must name a file with the secret in it, got %s, which is empty", companion.name, companion.value)
		return
	}
	o.value, o.source = secret, companion.source
	o.source.secret = companion.value
}

// passwordInDSN recognises a password in a connection URL or keyword string.
var passwordInDSN = regexp.MustCompile(`(?i)^[a-z]+://[^/?#@]*:[^/?#@]+@|[?&](ssl)?password=.|\b(ssl)?password\s*=\s*\S`)

// withoutPassword returns a word of the command line for a message: a connection
// string may stand where none belongs.
func withoutPassword(word string) string {
	if strings.Contains(word, "://") || strings.Contains(word, "=") {
		return redactDSN(word)
	}
	return word
}

// warnConfiguration warns of what is no fault: a password that an argument
// shows to everybody on the machine, and a variable that looks misspelt.
func warnConfiguration(c *cli.Context, warn func(string)) {
	r := resolved(c)
	for _, o := range r.options {
		if !o.hasFile() || o.value == "" || o.source.kind != fromFlag || o.source.secret != "" {
			continue
		}
		what := "--" + o.name
		if o.kind == kindDSN {
			if !passwordInDSN.MatchString(o.value) {
				continue
			}
			what = "the password in --" + o.name
		}
		warn(fmt.Sprintf("%s can be read by every user of this machine in the list of processes; set %s, or put it into a file and name that with --%s",
			what, environment(o.name), o.name+fileSuffix))
	}
	for _, remark := range r.warnings {
		warn(remark)
	}
}

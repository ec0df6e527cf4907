package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// resolution is what became of the options of one command.
type resolution struct {
	options  []*option
	faults   []error
	warnings []string
}

// resolutionKey is the key of the resolution in the context of a command.
type resolutionKey struct{}

// resolve gives each option of a command its value: what the arguments say, or
// else the environment, or else the configuration file, or else the default.
// What is at fault is kept, to be reported with everything else.
func resolve(c *cli.Context) {
	r := &resolution{options: options(c.Command)}
	c.Context = context.WithValue(c.Context, resolutionKey{}, r)
	r.readEnvironment()
	if o := findOption(r.options, optionConfig); o != nil {
		r.readFile(o.value)
		r.warnings = misspelt(os.Environ())
	}
	r.readSecrets()
	r.readTables()
	r.readSwitches()
}

// resolved returns what resolve found for a command.
func resolved(c *cli.Context) *resolution {
	r, ok := c.Context.Value(resolutionKey{}).(*resolution)
	if !ok {
		panic("the options of the command were not resolved")
	}
	return r
}

func (r *resolution) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

// readEnvironment takes the variables. An empty one is as good as none, as
// with libpq's.
func (r *resolution) readEnvironment() {
	for _, o := range r.options {
		if o.ofCommand || o.source.kind > fromEnvironment {
			continue
		}
		name := environment(o.name)
		if value := os.Getenv(name); value != "" {
			o.value, o.source = value, source{kind: fromEnvironment, variable: name}
		}
	}
}

// readFile takes what the configuration file says.
func (r *resolution) readFile(path string) {
	if path == "" {
		return
	}
	f, err := readFile(path)
	if err != nil {
		r.faults = append(r.faults, err)
	}
	for _, o := range r.options {
		entry, found := f.entries[o.name]
		if !found || o.source.kind > fromFile {
			continue
		}
		o.value, o.source = entry.value, source{kind: fromFile, path: path, line: entry.line}
		o.tables = entry.tables
	}
}

// readSwitches takes switches as people write them. What cannot be understood
// is a fault when the command asks for it; of a command's own switches, at once.
func (r *resolution) readSwitches() {
	for _, o := range r.options {
		if o.kind != kindSwitch {
			continue
		}
		switch strings.ToLower(o.value) {
		case "true", "yes", "on", "1", "t":
			o.value = "true"
		case "false", "no", "off", "0", "f":
			o.value = "false"
		default:
			if o.ofCommand {
				r.fault("--%s must be true or false, got %q", o.name, o.value)
			}
		}
	}
}

// where names the sources of the options that a fault speaks of, unless they
// are in sight on the command line.
func (r *resolution) where(fault string) string {
	var found []*option
	for _, name := range optionNames.FindAllStringSubmatch(fault, -1) {
		o := findOption(r.options, name[1])
		if o != nil && o.source.kind != fromDefault && o.source.kind != fromFlag && !slices.Contains(found, o) {
			found = append(found, o)
		}
	}
	if len(found) == 1 {
		return fmt.Sprintf(" (%s)", found[0].source)
	}
	var places []string
	for _, o := range found {
		places = append(places, fmt.Sprintf("--%s: %s", o.name, o.source))
	}
	if len(places) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.Join(places, "; "))
}

// optionNames finds the options that a fault speaks of, but not those in a
// value.
var optionNames = regexp.MustCompile(`(?:^| )--([a-z][a-z-]*)`)

// placed returns faults with the sources of the values behind each.
func (r *resolution) placed(faults error) error {
	if faults == nil {
		return nil
	}
	var all []error
	for line := range strings.Lines(faults.Error()) {
		line = oneLine(line)
		all = append(all, errors.New(line+r.where(line)))
	}
	return errors.Join(all...)
}

// injected are the variables that Kubernetes gives to every container for a
// service named outbox-cdc.
var injected = regexp.MustCompile(`^(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// misspelt returns a remark for each variable that looks like one of ours and
// is none. It is no fault: the environment may hold what is not meant for us.
func misspelt(environ []string) []string {
	var known []string
	for _, o := range definitions() {
		if !o.ofCommand {
			known = append(known, strings.TrimPrefix(environment(o.name), environmentPrefix))
		}
	}
	var remarks []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, environmentPrefix)
		if !ours || slices.Contains(known, rest) || strings.HasPrefix(rest, "TEST_") || injected.MatchString(rest) {
			continue
		}
		if near := nearest(rest, known); near != "" {
			near = strings.Replace(near, "mean ", "mean "+environmentPrefix, 1)
			remarks = append(remarks, fmt.Sprintf("the environment variable %s is not known and has no effect%s", name, near))
		}
	}
	slices.Sort(remarks)
	return remarks
}

package main

import (
	"flag"
	"strings"

	"github.com/urfave/cli/v2"
)

// kind is what the value of an option is.
type kind int

const (
	kindText kind = iota
	kindSwitch
	kindChoice   // one of the option's choices
	kindDuration // 30s, 1m30s
	kindSize     // 32MiB
	kindNumber
	kindPath   // of a file
	kindList   // separated by commas
	kindTables // a list of tables, in YAML
	kindDSN    // a connection string, which may hold a password
	kindSecret // never shown
)

// Help and completion take an option for a flag by these.
var _ interface {
	cli.DocGenerationFlag
	cli.CategorizableFlag
} = (*option)(nil)

// option is one setting: a flag, and unless it is of a command, also a variable
// of the environment and a key of the configuration file. It is a flag of the
// command line library, and the one definition that all of them come from.
//
// Values are texts, so that all faults of a configuration can be reported at
// once, wherever they come from.
type option struct {
	name, group, use string
	kind             kind
	standard         string   // the default
	choices          []string // all values of a kindChoice, some of a kindText
	// ofCommand says that the option tells what to do this time, so that
	// neither the environment nor a file has a say in it.
	ofCommand bool

	value  string
	source source
	tables []describedTable // what the value of a kindTables says
}

// Apply makes the option a flag of set.
func (o *option) Apply(set *flag.FlagSet) error {
	o.value, o.source = o.standard, source{}
	set.Var(o, o.name, o.use)
	return nil
}

// Set takes the value of an argument. A list may be given in several.
func (o *option) Set(value string) error {
	if o.kind == kindList && o.source.kind == fromFlag {
		value = o.value + "," + value
	}
	o.value, o.source = value, source{kind: fromFlag}
	return nil
}

// String returns the value.
func (o *option) String() string { return o.value }

// IsBoolFlag has the name of a switch alone mean true.
func (o *option) IsBoolFlag() bool { return o.kind == kindSwitch }

// IsSet reports whether the value is anything but the default.
func (o *option) IsSet() bool { return o.source.kind != fromDefault }

// IsVisible has the help show the option.
func (o *option) IsVisible() bool { return true }

// Names returns the name.
func (o *option) Names() []string { return []string{o.name} }

// TakesValue reports whether the flag needs a value behind it.
func (o *option) TakesValue() bool { return o.kind != kindSwitch }

// GetUsage returns what the option is for.
func (o *option) GetUsage() string { return o.use }

// GetCategory returns the group of the option in the help.
func (o *option) GetCategory() string { return o.group }

// GetValue returns the default, as the library's flags do.
func (o *option) GetValue() string { return o.standard }

// GetDefaultText returns the default.
func (o *option) GetDefaultText() string { return o.standard }

// GetEnvVars returns the variable of the environment.
func (o *option) GetEnvVars() []string {
	if o.ofCommand {
		return nil
	}
	return []string{environment(o.name)}
}

// isKey reports whether the configuration file may hold the option.
func (o *option) isKey() bool { return !o.ofCommand && o.name != optionConfig }

// hasFile reports whether the value may stand in a file of its own, which
// another option names.
func (o *option) hasFile() bool { return o.kind == kindDSN || o.kind == kindSecret }

// environment returns the variable that stands for a flag.
func environment(flag string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

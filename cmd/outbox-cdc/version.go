package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the linker in a release.
var version string

// versionInfo is what the version command prints.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: "Says which release or commit this is, and what it was built with and for.",
		UsageText:   "outbox-cdc version -o json",
		Flags:       flags("o"),
		Action: func(c *cli.Context) error {
			s := settings{c: c}
			if s.output(); s.err() != nil {
				return s.err()
			}
			info := versionInfo{
				Version: buildVersion(), Revision: revision(),
				Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}
			return p.print(c, info, func() {
				fmt.Fprintf(p.out, "outbox-cdc %s %s %s %s\n", info.Version, info.Revision, info.Go, info.Platform)
			})
		},
	}
}

// buildVersion returns the version of this build.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// revision returns the commit that this build was made from, as far as known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

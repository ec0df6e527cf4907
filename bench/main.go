//go:build linux || darwin

// Command bench measures outbox-cdc on a real PostgreSQL and a real Kafka
// broker beside the limit of the machine: what two readers reach that throw
// away what they read from the same kind of slot.
//
// It starts what it needs, ends by itself, and leaves nothing behind, however
// it ends. A case that fails says so, and the others are measured all the same.
// docs/benchmarks.md says what the figures mean.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// options are what the command line says.
type options struct {
	only    *regexp.Regexp // names of cases; nil is all
	full    bool           // the cases that take long, instead of the others
	repeat  int            // runs of each contender
	scale   float64        // of rows and times
	json    string         // file; empty is none, as with those below
	svg     string
	profile string // directory
}

func main() {
	if isChild() {
		os.Exit(runChild())
	}
	o, reports, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, release) // a second signal ends the process at once
	if reports != nil {
		err = writePage(page, reports)
	} else {
		err = measure(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parse reads the command line. reports are the files that -markdown names.
func parse(args []string) (o options, reports []string, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("case", "", "measure only cases whose name matches this regular expression")
	flags.BoolVar(&o.full, "full", false, "measure the cases that take long, instead of the others")
	flags.IntVar(&o.repeat, "repeat", 3, "runs of each contender in a case, 1 to 10")
	flags.Float64Var(&o.scale, "scale", 1, "multiply rows and times by this, for a quick try")
	flags.StringVar(&o.json, "json", "", "write the figures to this file")
	flags.StringVar(&o.svg, "svg", "", "write a chart to this file")
	flags.StringVar(&o.profile, "profile", "", "write CPU and heap profiles of outbox-cdc, one pair per run, to this directory")
	markdown := flags.String("markdown", "", "measure nothing: put the tables and the chart of these files of -json, separated by commas, into "+page)
	if err := flags.Parse(args); err != nil {
		return o, nil, err
	}
	if flags.NArg() > 0 {
		return o, nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *markdown != "" {
		return o, strings.Split(*markdown, ","), nil
	}
	if o.repeat < 1 || o.repeat > maxRepeat {
		return o, nil, fmt.Errorf("-repeat must be from 1 to %d, got %d", maxRepeat, o.repeat)
	}
	if !(o.scale > 0 && o.scale <= 10) {
		return o, nil, fmt.Errorf("-scale must be above 0 and at most 10, got %g", o.scale)
	}
	if *only != "" {
		if o.only, err = regexp.Compile(*only); err != nil {
			return o, nil, fmt.Errorf("-case: %w", err)
		}
	}
	if len(o.chosen()) == 0 {
		return o, nil, fmt.Errorf("-case %s matches none of: %s", *only, strings.Join(caseNames(o.full), " "))
	}
	if o.profile != "" { // outbox-cdc runs in a directory of its own
		o.profile, err = filepath.Abs(o.profile)
	}
	return o, nil, err
}

// maxRepeat keeps the slots of a case, one for each run of three contenders,
// within what the server allows.
const maxRepeat = 10

// measure runs the chosen cases and reports them. Its error says that a case
// has failed, or that ctx has ended; what was measured is reported nevertheless.
func measure(ctx context.Context, o options, out, progress io.Writer) error {
	b, err := newBench(o, progress)
	if err != nil {
		return err
	}
	r, err := b.run(ctx, o.chosen())
	if err := errors.Join(err, b.close()); err != nil {
		return err
	}
	writeTable(out, r)
	if o.json != "" {
		err = r.save(o.json)
	}
	if o.svg != "" {
		err = errors.Join(err, os.WriteFile(o.svg, chart(r), 0o644))
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted; the cases that were not measured are missing above")
	}
	return r.failure()
}

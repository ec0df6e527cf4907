package main

import (
	"fmt"
	"os"
	"runtime/debug"
)

// crash ends the process if the goroutine that defers it panics: a contract
// inside this program is broken, and what it holds in memory cannot be trusted.
// To unwind the others would risk to wait for what never comes; to leave at
// once is as safe as SIGKILL.
func (p *program) crash() {
	broken := recover()
	if broken == nil {
		return
	}
	err := fmt.Errorf("%w: %v; nothing is lost, start it again, and report this line with the stack that --log-level debug adds", errInternal, broken)
	fmt.Fprintf(p.err, "outbox-cdc: %s\n", oneLine(err.Error()))
	if p.verbose {
		p.err.Write(debug.Stack())
	}
	os.Exit(classify(err).code)
}

//go:build linux || darwin

package integration

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// endings has a way to each exit code.
var endings = map[int]func(*outbox){
	0: func(o *outbox) { o.start().stop() },
	exitRuntime: func(o *outbox) {
		r := o.start("--shutdown-timeout", "1s")
		stallWithARowOut(o, r, nil)
		if err := r.Signal(syscall.SIGTERM); err != nil {
			o.t.Fatal(err)
		}
		r.expectExit(patience, exitRuntime, "--shutdown-timeout")
		o.kafka.Broker(0).Proxy().Resume()
	},
	exitUsage: func(o *outbox) { o.launch("--table", "public.other").expectExit(patience, exitUsage, "other") },
	exitPostgres: func(o *outbox) {
		o.launch("--dsn", o.nowhere(), "--start-timeout", "1s").expectExit(patience, exitPostgres, "127.0.0.1")
	},
	exitKafka: func(o *outbox) {
		o.launch("--brokers", "127.0.0.1:1", "--start-timeout", "1s").expectExit(patience, exitKafka, "127.0.0.1:1")
	},
	exitGap: func(o *outbox) { o.launch("--slot", "other").expectExit(patience, exitGap, "other") },
	exitBusy: func(o *outbox) {
		holder := o.start()
		o.launch("--no-wait").expectExit(patience, exitBusy, o.slot)
		holder.stop()
	},
	exitHalted: func(o *outbox) {
		id := idOf(o.insertTyped("a/b"))
		o.launch("--on-poison", "halt").expectExit(patience, exitHalted, id)
	},
	exitDenied: func(o *outbox) {
		role := harness.Name(o.t)
		o.exec("CREATE ROLE " + role + " LOGIN")
		o.launch("--dsn", o.as(url.User(role))).expectExit(patience, exitDenied, role)
	},
}

// TestRefusalHasEveryExitCode ends the relay with each code that
// docs/exit-codes.md knows, one after the other on the same outbox. None of
// them costs an event or doubles one.
func TestRefusalHasEveryExitCode(t *testing.T) {
	root, err := harness.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "exit-codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []int
	for _, m := range regexp.MustCompile(`(?m)^## Code (\d+)$`).FindAllStringSubmatch(string(page), -1) {
		code, _ := strconv.Atoi(m[1]) // digits
		documented = append(documented, code)
	}
	codes := slices.Sorted(maps.Keys(endings))
	if !slices.Equal(codes, documented) {
		t.Errorf("docs/exit-codes.md has the codes %v, this test %v", documented, codes)
	}
	o := newOutbox(t, outboxConfig{kafka: proxiedKafka(t, 1), settings: shortTimeout})
	for _, code := range codes {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			o.t = t
			o.insert(2)
			endings[code](o)
		})
	}
	o.t = t
	o.start()
	o.awaitDrained()
	o.verifyExcept(exceptions{setAside: o.deadLetters()})
}

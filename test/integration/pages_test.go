//go:build linux || darwin

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// serving is the flag that has a relay serve its pages on a free port.
var serving = []string{"--http", "127.0.0.1:0"}

// page returns the status code and the body of one of the relay's pages, which
// must be served from the beginning.
func (r *relay) page(path string) (code int, body string) {
	r.o.t.Helper()
	code, body, err := r.tryPage(path)
	if err != nil {
		r.mustRun()
		r.o.t.Fatal(err)
	}
	return code, body
}

// tryPage is page for a relay that may be about to end.
func (r *relay) tryPage(path string) (code int, body string, err error) {
	r.o.t.Helper()
	r.awaitLog("http server listens", 1)
	ctx, cancel := context.WithTimeout(r.o.t.Context(), 5*time.Second)
	defer cancel()
	url := "http://" + r.log("http server listens")[0].text("address") + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return response.StatusCode, string(b), err
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready    bool     `json:"ready"`
	Role     string   `json:"role"`
	Reason   string   `json:"reason"`
	Problems []string `json:"problems"`
}

// readiness asks the relay whether it is ready. The status code must agree.
func (r *relay) readiness() readiness {
	r.o.t.Helper()
	code, body := r.page("/readyz")
	var answer readiness
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		r.o.t.Fatalf("%v: %s", err, body)
	}
	if answer.Ready != (code == http.StatusOK) || answer.Ready == (answer.Reason != "") {
		r.o.t.Errorf("/readyz says %d and %s", code, body)
	}
	return answer
}

// awaitReady waits until the relay is ready in a role.
func (r *relay) awaitReady(role string) {
	r.o.t.Helper()
	harness.Eventually(r.o.t, patience, func() error {
		if now := r.readiness(); !now.Ready || now.Role != role {
			return fmt.Errorf("it should be ready and %s, and says %+v", role, now)
		}
		return nil
	})
}

// awaitUnready waits until the relay is not ready, for a problem that holds all
// of the texts.
func (r *relay) awaitUnready(within time.Duration, texts ...string) {
	r.o.t.Helper()
	harness.Eventually(r.o.t, within, func() error {
		now := r.readiness()
		for _, problem := range now.Problems {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(problem, text) }) {
				return nil
			}
		}
		return fmt.Errorf("no problem with %q: %+v", texts, now)
	})
}

// mustLive checks that the relay says that a restart would not help.
func (r *relay) mustLive() {
	r.o.t.Helper()
	if code, body := r.page("/livez"); code != http.StatusOK {
		r.o.t.Errorf("/livez says %d and %s", code, body)
	}
}

// awaitConfirmedInStatus waits until /status says where the slot stands.
func (r *relay) awaitConfirmedInStatus() {
	r.o.t.Helper()
	harness.Eventually(r.o.t, patience, func() error {
		confirmed := fmt.Sprintf(`"confirmed_flush_lsn": "%s"`, r.o.confirmed())
		if _, body := r.page("/status"); !strings.Contains(body, confirmed) {
			return fmt.Errorf("/status does not hold %s: %s", confirmed, body)
		}
		return nil
	})
}

// metric returns a sample of /metrics, named with its labels, and whether there
// is one.
func (r *relay) metric(name string) (value float64, found bool) {
	r.o.t.Helper()
	_, body := r.page("/metrics")
	for line := range strings.Lines(body) {
		text, is := strings.CutPrefix(line, name+" ")
		if !is {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			r.o.t.Fatalf("%s: %v", line, err)
		}
		return value, true
	}
	return 0, false
}

// awaitMetric waits until a sample of /metrics satisfies a condition.
func (r *relay) awaitMetric(name string, condition func(float64) bool) {
	r.o.t.Helper()
	harness.Eventually(r.o.t, patience, func() error {
		value, found := r.metric(name)
		if !found || !condition(value) {
			return fmt.Errorf("%s is %v (there: %v)", name, value, found)
		}
		return nil
	})
}

// is is a condition for awaitMetric.
func is(want float64) func(float64) bool { return func(got float64) bool { return got == want } }

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outbox-cdc/outbox-cdc/publisher"
	"github.com/outbox-cdc/outbox-cdc/replication"
)

// newTestMonitor returns a monitor of a process with a session that is up and
// a publisher that has published two events.
func newTestMonitor() *monitor {
	h := newHealth()
	at := func(lsn pglogrepl.LSN) func() pglogrepl.LSN { return func() pglogrepl.LSN { return lsn } }
	h.active(sessionInfo{id: "one", pid: 4711, started: h.started, received: at(0x200000000), confirmed: at(0x100000000)})
	safe := int64(1 << 20)
	h.sawSlot(replication.Slot{Name: "orders", WALStatus: "extended", Confirmed: 0x100000000, LagBytes: 4096, RetainedBytes: 8192, SafeWALBytes: &safe})
	return &monitor{
		slot: "orders", health: h, watchdog: newWatchdog(h, func(context.Context) error { return nil }, time.Second),
		progress: func() publisher.Progress {
			return publisher.Progress{Published: 2, LastPublished: time.Unix(1700000000, 0)}
		},
		troubles: func() []publisher.Trouble { return nil },
	}
}

// serve serves the pages of a monitor.
func serve(t *testing.T, m *monitor) *httptest.Server {
	registry := newRegistry()
	publisher.NewMetrics(registry)
	registerProcessMetrics(registry, m)
	server := httptest.NewServer(routes(m, registry))
	t.Cleanup(server.Close)
	return server
}

// request returns the status code, the content type and the body.
func request(t *testing.T, method, url string) (code int, kind, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), string(b)
}

func TestPagesThatAreServed(t *testing.T) {
	server := serve(t, newTestMonitor())
	for _, tc := range []struct {
		method, path string
		code         int
		kind         string
		holds        []string
	}{
		{http.MethodGet, "/livez", 200, "application/json", []string{`"alive": true`}},
		{http.MethodGet, "/readyz", 200, "application/json", []string{`"ready": true`, `"role": "active"`}},
		{http.MethodHead, "/readyz", 200, "application/json", nil},
		{http.MethodGet, "/status", 200, "application/json", []string{`"state": "active"`, `"received_lsn": "2/0"`, `"confirmed_flush_lsn": "1/0"`, `"walsender_pid": 4711`, `"published": 2`, `"lag_bytes": 4096`}},
		{http.MethodGet, "/", 200, "text/html", []string{"<!doctype html>", "orders", "4.0 KiB behind", "walsender 4711"}},
		{http.MethodGet, "/metrics", 200, "text/plain", []string{"outbox_pending_count 0", "outbox_cdc_build_info{", `outbox_cdc_state{state="active"} 1`}},
		{http.MethodGet, "/other", 404, "text/plain", nil},
		{http.MethodGet, "/livez/deeper", 404, "text/plain", nil},
		{http.MethodPost, "/readyz", 405, "text/plain", nil},
		{http.MethodDelete, "/", 405, "text/plain", nil},
	} {
		code, kind, body := request(t, tc.method, server.URL+tc.path)
		if code != tc.code || !strings.HasPrefix(kind, tc.kind) {
			t.Errorf("%s %s: got %d %s, want %d %s", tc.method, tc.path, code, kind, tc.code, tc.kind)
		}
		for _, text := range tc.holds {
			if !strings.Contains(body, text) {
				t.Errorf("%s %s lacks %q:\n%s", tc.method, tc.path, text, body)
			}
		}
	}
}

func TestPagesOfAProcessThatIsNotReady(t *testing.T) {
	m := newTestMonitor()
	server := serve(t, m)
	m.health.failed(errors.New("<b>server</b> away"), time.Minute)
	m.watchdog.note(loopReader, false, -2*stuckAfter)
	code, _, body := request(t, http.MethodGet, server.URL+"/readyz")
	var ready readiness
	if err := json.Unmarshal([]byte(body), &ready); err != nil || code != http.StatusServiceUnavailable || ready.Ready || len(ready.Problems) != 1 || !strings.HasSuffix(ready.Reason, ": <b>server</b> away") {
		t.Errorf("readyz: %d %s (%v)", code, body, err)
	}
	code, _, body = request(t, http.MethodGet, server.URL+"/livez")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, loopReader) {
		t.Errorf("livez: %d %s", code, body)
	}
	code, _, body = request(t, http.MethodGet, server.URL+"/status")
	if code != http.StatusOK || !strings.Contains(body, `"retry_at"`) || !strings.Contains(body, `<b>server</b> away`) {
		t.Errorf("status: %d %s", code, body)
	}
	_, _, body = request(t, http.MethodGet, server.URL+"/")
	if strings.Contains(body, "<b>server") || !strings.Contains(body, "&lt;b&gt;server") || !strings.Contains(body, "not ready") {
		t.Errorf("page: %s", body)
	}
}

func TestServingStartsAndStops(t *testing.T) {
	var address string
	log := slog.New(slog.NewTextHandler(writerFunc(func(line string) {
		if _, after, found := strings.Cut(line, "address="); found {
			address = strings.TrimSpace(after)
		}
	}), nil))
	stop, err := serveHTTP("localhost:0", routes(newTestMonitor(), newRegistry()), log)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, _ := request(t, http.MethodGet, "http://"+address+"/livez"); code != http.StatusOK {
		t.Errorf("got %d", code)
	}
	stop()
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
	stop, err = serveHTTP("", nil, log)
	if err != nil {
		t.Fatal(err)
	}
	stop()
}

// writerFunc is what a logger writes to.
type writerFunc func(line string)

func (f writerFunc) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

func TestAddressThatCannotBeListenedOn(t *testing.T) {
	taken, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	_, err = serveHTTP(addr, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), addr) {
		t.Errorf("got error %v, want a usage error that names %s", err, addr)
	}
}

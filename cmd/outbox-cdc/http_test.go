package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outbox-cdc/outbox-cdc/publisher"
)

func TestMetricsAreServed(t *testing.T) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	registry := newRegistry()
	publisher.NewMetrics(registry)
	stop, err := serveHTTP(addr, registry, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	response, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"outbox_pending_count 0", "outbox_cdc_events_published_total 0", "outbox_cdc_build_info{"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("metrics lack %q", want)
		}
	}
}

func TestAddressThatCannotBeListenedOn(t *testing.T) {
	taken, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	_, err = serveHTTP(addr, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), addr) {
		t.Errorf("got error %v, want a usage error that names %s", err, addr)
	}
}

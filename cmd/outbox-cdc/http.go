package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newRegistry returns a registry with what is known of any process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "outbox_cdc_build_info", Help: "1, with the version of the binary.", ConstLabels: prometheus.Labels{"version": buildVersion()},
	})
	build.Set(1)
	registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// listenAddress reads the address to serve on. Without a host it is on loopback
// alone. Empty is none.
func (s *settings) listenAddress(name string) string {
	value := s.c.String(name)
	if value == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		s.fault("--%s must be [host]:port, got %q", name, value)
		return ""
	}
	if host == "" {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// serveHTTP serves the metrics on addr until the returned function is called.
// An empty addr is nothing to serve on.
func serveHTTP(addr string, registry *prometheus.Registry, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, usage("--http %s cannot be listened on, choose another address: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("http server ended", "address", listener.Addr().String(), "error", err)
		}
	}()
	log.Info("http server listens", "address", listener.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		<-done
	}, nil
}

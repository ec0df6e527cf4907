//go:build linux || darwin

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-cdc/outbox-cdc/test/harness"
)

// TestMain makes the test binary the children too that the bench starts of
// itself.
func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(runChild())
	}
	os.Exit(harness.Main(m))
}

// TestBenchMeasures runs a few cases at a tiny scale behind one that fails, and
// looks for every figure that they are about.
func TestBenchMeasures(t *testing.T) {
	o := options{repeat: 1, scale: 0.001}
	chosen := []scenario{{name: "broken", title: "a case that fails", topics: 1, partitions: 1, contenders: alone, run: func(*place, context.Context) error {
		return errors.New("broken on purpose")
	}}}
	want := map[string][]figure{
		"drain-100":    {rowRate, cpuPerMillion, peakMemory, firstRecord, acquiring, allWriting, drained, confirmed},
		"latency-1000": {latency50, latency99, latencyMax, sent, peakMemory},
		"idle":         {cpuShare, memory, peakMemory},
	}
	for _, s := range o.chosen() {
		if want[s.name] != nil {
			chosen = append(chosen, s)
		}
	}
	var progress bytes.Buffer
	b, err := newBench(o, &progress)
	if err != nil {
		t.Fatal(err)
	}
	b.jvm = nil // for a quick start
	r, err := b.run(t.Context(), chosen)
	if err := errors.Join(err, b.close()); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	if err := r.failure(); err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "broken on purpose") {
		t.Errorf("failed: got %v, want the broken case alone\n%s", err, &progress)
	}
	for name, figures := range want {
		for _, f := range figures {
			if s, measured := r.summary(name, ours, f); !measured || s.Median < 0 || f != cpuShare && s.Median == 0 {
				t.Errorf("%s, %s: got %v, %t", name, f.name, s, measured)
			}
		}
	}
	for _, who := range []string{naive, paced} {
		for _, f := range []figure{rowRate, cpuPerMillion, peakMemory, firstRecord, drained} {
			if s, measured := r.summary("drain-100", who, f); !measured || s.Median <= 0 {
				t.Errorf("drain-100, %s, %s: got %v, %t", who, f.name, s, measured)
			}
		}
	}
	if r.PostgreSQL == "" || r.Machine.Cores == 0 {
		t.Errorf("versions and machine: got %+v", r)
	}
}

// TestBenchEndsWhenInterrupted interrupts it before anything has begun: what
// there is to report is reported.
func TestBenchEndsWhenInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	file := filepath.Join(t.TempDir(), "bench.json")
	var out, progress bytes.Buffer
	err := measure(ctx, options{repeat: 1, scale: 1, json: file}, &out, &progress)
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v, want that it was interrupted", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) || !strings.Contains(out.String(), "15 are not measured") {
		t.Errorf("reported %s\nand shown\n%s", text, &out)
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args, want string // want is part of the error; empty if there is none
	}{
		{"", ""},
		{"-case drain -repeat 10 -scale 0.1", ""},
		{"-full -case backlog", ""},
		{"-markdown a.json,b.json", ""},
		{"-case backlog", "matches none of: drain-100 "},
		{"-case [", "-case: "},
		{"-repeat 0", "-repeat must be from 1 to 10, got 0"},
		{"-repeat 11", "-repeat must be from 1 to 10, got 11"},
		{"-scale 0", "-scale must be above 0 and at most 10, got 0"},
		{"-scale NaN", "-scale must be above 0 and at most 10, got NaN"},
		{"drain-1", `unexpected argument "drain-1"`},
	} {
		_, _, err := parse(strings.Fields(tt.args))
		if got := errorText(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got error %q, want %q", tt.args, got, tt.want)
		}
	}
	_, reports, err := parse([]string{"-markdown", "a.json,b.json"})
	if err != nil || len(reports) != 2 {
		t.Errorf("reports: got %q, %v", reports, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestCases holds for all of them, at any scale.
func TestCases(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range scenarios() {
		if seen[s.name] {
			t.Errorf("two cases are called %s", s.name)
		}
		seen[s.name] = true
		for _, scale := range []float64{0.0001, 0.3, 1} {
			c := s.scaled(scale)
			if c.load.rows > 0 && (c.load.perTransaction > c.load.rows || c.load.rows < fewestLarge) {
				t.Errorf("%s at scale %g: %+v", s.name, scale, c.load)
			}
			if (c.time > 0) != (s.time > 0) || c.time > 0 && c.time < shortestTime {
				t.Errorf("%s at scale %g: %s", s.name, scale, c.time)
			}
		}
	}
	for _, g := range growths() {
		for _, step := range g.steps {
			if !seen[step.name] {
				t.Errorf("the growth over %s has a case %s, which there is not", g.over, step.name)
			}
		}
	}
	if got := perTransaction(t, "drain-1m", 0.5); got != 500_000 {
		t.Errorf("half of one transaction has %d rows", got)
	}
}

func perTransaction(t *testing.T, name string, scale float64) int {
	t.Helper()
	for _, s := range scenarios() {
		if s.name == name {
			return s.scaled(scale).load.perTransaction
		}
	}
	t.Fatalf("there is no case %s", name)
	return 0
}

package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/outbox-cdc/outbox-cdc/publisher"
)

const (
	operationsPage = "../../docs/operations.md"
	alertRules     = "../../deploy/prometheus/alerts.yaml"
)

// namesOfMetrics are the names of all metrics that have been registered. A
// metric with labels need not have a value yet.
type namesOfMetrics struct {
	prometheus.Registerer
	names []string
}

var metricName = regexp.MustCompile(`fqName: "([^"]+)"`)

// MustRegister registers collectors.
func (n *namesOfMetrics) MustRegister(collectors ...prometheus.Collector) {
	n.Registerer.MustRegister(collectors...)
	for _, c := range collectors {
		described := make(chan *prometheus.Desc, 100)
		c.Describe(described)
		close(described)
		for d := range described {
			n.names = append(n.names, metricName.FindStringSubmatch(d.String())[1])
		}
	}
}

// allMetrics returns the names of all metrics of run, and those with a value, as
// "name" and as name{label="value"}.
func allMetrics(t *testing.T) (names, values []string) {
	t.Helper()
	registry := newRegistry()
	all := &namesOfMetrics{Registerer: registry, names: []string{"outbox_cdc_build_info"}}
	publisher.NewMetrics(all)
	registerProcessMetrics(all, newTestMonitor())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				values = append(values, fmt.Sprintf("%s{%s=%q}", f.GetName(), l.GetName(), l.GetValue()))
			}
		}
	}
	return all.names, values
}

// checkMetrics checks that a text speaks of metrics and states that exist.
func checkMetrics(t *testing.T, source, text string) {
	t.Helper()
	names, values := allMetrics(t)
	for _, name := range regexp.MustCompile(`\boutbox_(?:cdc_\w+|\w+_(?:count|seconds|total|bytes))\b`).FindAllString(text, -1) {
		metric := strings.TrimSuffix(name, "_bucket")
		if !slices.Contains(names, metric) && name != "outbox_cdc_checkpoint" { // the table
			t.Errorf("%s: there is no metric %s", source, name)
		}
	}
	for _, selector := range regexp.MustCompile(`(\w+)\{(\w+)(?:=|!=|=~|!~)"([^"]*)"\}`).FindAllStringSubmatch(text, -1) {
		for value := range strings.SplitSeq(selector[3], "|") {
			if want := fmt.Sprintf("%s{%s=%q}", selector[1], selector[2], value); !slices.Contains(values, want) {
				t.Errorf("%s: %s never occurs", source, want)
			}
		}
	}
}

func TestOperationsPageNamesMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile(operationsPage)
	if err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, operationsPage, string(text))
}

func TestAlertsWatchMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile(alertRules)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(operationsPage)
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil || len(rules.Groups) != 1 {
		t.Fatalf("got %d groups, want one: %v", len(rules.Groups), err)
	}
	for _, r := range rules.Groups[0].Rules {
		checkMetrics(t, r.Alert, r.Expr)
		if !strings.Contains(r.Expr, "outbox_") || strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
			t.Errorf("%s: what is %q?", r.Alert, r.Expr)
		}
		if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) || r.Annotations["summary"] == "" {
			t.Errorf("%s: got labels %v and annotations %v", r.Alert, r.Labels, r.Annotations)
		}
		if !strings.Contains(string(page), r.Alert) {
			t.Errorf("%s does not say what to do about %s", operationsPage, r.Alert)
		}
	}
	for _, name := range regexp.MustCompile(`\bOutboxCDC\w+`).FindAllString(string(page), -1) {
		if !strings.Contains(string(text), "alert: "+name+"\n") {
			t.Errorf("%s: there is no alert %s", operationsPage, name)
		}
	}
}

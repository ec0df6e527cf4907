//go:build linux || darwin

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// figure is something that is measured. Its name stands in the JSON, with the
// unit in it.
type figure struct {
	name    string
	heading string // of a column, with the unit
	digits  int    // behind the decimal point
}

// The figures, in the order of columns.
var (
	rowRate       = figure{"rows_per_second", "rows/s", 0}
	byteRate      = figure{"payload_mb_per_second", "MB/s", 0}
	cpuPerMillion = figure{"cpu_seconds_per_million_rows", "CPU-s/M rows", 2}
	cpuPerGB      = figure{"cpu_seconds_per_gb", "CPU-s/GB", 2}
	brokerCPU     = figure{"broker_cpu_seconds_per_million_rows", "broker CPU-s", 2}
	peakMemory    = figure{"peak_rss_mib", "peak MiB", 1}
	firstRecord   = figure{"exec_to_first_record_ms", "first ms", 0}
	allWriting    = figure{"exec_to_all_partitions_ms", "all parts ms", 0}
	acquiring     = figure{"acquiring_ms", "acquiring ms", 0}
	drained       = figure{"exec_to_end_s", "end s", 2}
	confirmed     = figure{"exec_to_confirmed_s", "confirmed s", 2}
	sent          = figure{"committed_rows_per_second", "committed/s", 0}
	latency50     = figure{"commit_to_consumer_p50_ms", "p50 ms", 2}
	latency99     = figure{"commit_to_consumer_p99_ms", "p99 ms", 2}
	latencyMax    = figure{"commit_to_consumer_max_ms", "max ms", 1}
	cpuShare      = figure{"cpu_percent", "CPU %", 2}
	memory        = figure{"rss_mib", "RSS MiB", 1}
)

func figures() []figure {
	return []figure{
		rowRate, byteRate, cpuPerMillion, brokerCPU, cpuPerGB, cpuShare, memory, peakMemory, firstRecord, acquiring, allWriting, drained, confirmed,
		sent, latency50, latency99, latencyMax,
	}
}

// sample is what one run has measured, by the names of figures.
type sample map[string]float64

// summary is a figure over several runs.
type summary struct {
	Median, Min, Max float64
}

// summarise returns the median and the range of a figure over the runs that have
// it, and whether there are any.
func summarise(runs []sample, f figure) (summary, bool) {
	var values []float64
	for _, run := range runs {
		if v, measured := run[f.name]; measured {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return summary{}, false
	}
	slices.Sort(values)
	middle := len(values) / 2
	median := values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + median) / 2
	}
	return summary{median, values[0], values[len(values)-1]}, true
}

// quantile returns the value that a share of the sorted values is not above.
func quantile[T cmp.Ordered](sorted []T, share float64) T {
	at := int(share * float64(len(sorted)))
	return sorted[min(at, len(sorted)-1)]
}

// text is the median, and the range in brackets where there is one.
func (s summary) text(f figure) string {
	median := number(s.Median, f.digits)
	low, high := number(s.Min, f.digits), number(s.Max, f.digits)
	if low == high {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, low, high)
}

// number prints a value with commas between thousands.
func number(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}

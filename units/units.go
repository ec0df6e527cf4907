// Package units reads and writes sizes and durations as people write them:
// 32MiB, 1m30s, 2h. What it writes, it reads again as the same value.
package units

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var sizeText = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`)

// suffixes are the units of a size. The short ones mean what memory is usually
// counted in.
func suffixes() map[string]int64 {
	return map[string]int64{
		"": 1, "b": 1,
		"k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10,
		"m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20,
		"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30,
	}
}

// ParseBytes reads a number of bytes: 33554432, 32MiB, 1G. Case does not
// matter. The error begins with "must be".
func ParseBytes(text string) (int64, error) {
	parts := sizeText.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return 0, fmt.Errorf("must be a size such as 32MiB, got %q", text)
	}
	unit, known := suffixes()[strings.ToLower(parts[2])]
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if !known || err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("must be a size such as 32MiB, got %q", text)
	}
	return n * unit, nil
}

// Bytes writes a number of bytes exactly, in the largest unit that allows it.
func Bytes(n int64) string {
	if n == 0 {
		return "0"
	}
	unit := 0
	for n%1024 == 0 && unit < 3 {
		n /= 1024
		unit++
	}
	return strconv.FormatInt(n, 10) + []string{"", "KiB", "MiB", "GiB"}[unit]
}

// Duration writes a duration without the parts that are zero: 2h where the
// standard library writes 2h0m0s.
func Duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

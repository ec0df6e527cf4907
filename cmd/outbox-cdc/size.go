package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var sizeText = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`)

// units are the suffixes of a size. The short ones mean what memory is usually
// counted in.
func units() map[string]int64 {
	return map[string]int64{
		"": 1, "b": 1,
		"k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10,
		"m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20,
		"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30,
	}
}

// parseSize reads a number of bytes as people write it: 33554432, 32MiB, 1G.
func parseSize(text string) (int64, error) {
	parts := sizeText.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return 0, fmt.Errorf("must be a size such as 32MiB, got %q", text)
	}
	unit, known := units()[strings.ToLower(parts[2])]
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if !known || err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("must be a size such as 32MiB, got %q", text)
	}
	return n * unit, nil
}

// sizeOf writes a number of bytes as people read it.
func sizeOf(n int64) string {
	value, unit := float64(n), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1<<10 {
			break
		}
		value, unit = value/(1<<10), larger
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

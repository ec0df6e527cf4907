package main

import "fmt"

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

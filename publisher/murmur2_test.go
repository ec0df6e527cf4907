package publisher

import (
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/murmur2.txt
var javaVectors string

// vectorPartitions are the numbers of partitions in murmur2.txt.
var vectorPartitions = []int{1, 2, 3, 6, 7, 12, 100, 1000}

// TestPartitionIsTheJavaClients compares the partition of a key with the one
// that the Java client gives it, for texts in any script, the empty key, and
// bytes that are no text.
//
// Behaviours: O4
func TestPartitionIsTheJavaClients(t *testing.T) {
	vectors := 0
	for line := range strings.Lines(javaVectors) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		vectors++
		columns := strings.Fields(line)
		key, err := hex.DecodeString(strings.TrimPrefix(columns[0], "x"))
		if err != nil || len(columns) != 2+len(vectorPartitions) {
			t.Fatalf("not a vector: %q", line)
		}
		if got := strconv.Itoa(int(int32(murmur2(key)))); got != columns[1] {
			t.Errorf("murmur2(%x): got %s, want %s", key, got, columns[1])
		}
		for i, n := range vectorPartitions {
			if got := strconv.Itoa(int(partitionOf(key, n))); got != columns[2+i] {
				t.Errorf("key %x, %d partitions: got %s, want %s", key, n, got, columns[2+i])
			}
		}
	}
	if vectors < 100 {
		t.Errorf("only %d vectors were read", vectors)
	}
}

// The vectors of Kafka's own UtilsTest.testMurmur2.
func TestMurmur2IsTheJavaClients(t *testing.T) {
	tests := []struct {
		key  string
		want int32
	}{
		{"21", -973932308},
		{"foobar", -790332482},
		{"a-little-bit-long-string", -985981536},
		{"a-little-bit-longer-string", -1486304829},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
		{"abc", 479470107},
	}
	for _, tt := range tests {
		if got := int32(murmur2([]byte(tt.key))); got != tt.want {
			t.Errorf("murmur2(%q): got %d, want %d", tt.key, got, tt.want)
		}
	}
}

package publisher

import "testing"

// The vectors are those of Kafka's own UtilsTest.testMurmur2, and partitions
// that the Java client 4.3.1 gives to further keys.
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

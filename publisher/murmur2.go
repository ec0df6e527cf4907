package publisher

import "encoding/binary"

// partitionOf returns the partition that the Java client's default partitioner
// gives to key.
func partitionOf(key []byte, partitions int) int32 {
	return int32(int(murmur2(key)&0x7fffffff) % partitions)
}

// murmur2 is the hash of the Java client (org.apache.kafka.common.utils.Utils),
// byte for byte.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

package harness

import "golang.org/x/sys/unix"

// FillDisk has every write of the broker fail that makes a file longer, as on
// a disk that is full, until it is started again. Kafka gives up its only log
// directory and ends.
func (b *Broker) FillDisk() error {
	return unix.Prlimit(b.process.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: 0}, nil)
}

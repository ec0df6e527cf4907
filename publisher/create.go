package publisher

import "fmt"

// CreateTopics says how topics that are missing are made.
type CreateTopics struct {
	// Enabled has a missing topic made. Otherwise the brokers'
	// auto.create.topics.enable decides.
	Enabled bool
	// Partitions and Replication are those of a new topic; 0 is the brokers'
	// default (Kafka 2.4, KIP-464).
	Partitions  int32
	Replication int16
}

// validate reports every fault, each by its flag.
func (c CreateTopics) validate() (faults []error) {
	for _, number := range []struct {
		flag  string
		value int64
	}{{"--create-topics-partitions", int64(c.Partitions)}, {"--create-topics-replication", int64(c.Replication)}} {
		switch {
		case number.value < 0:
			faults = append(faults, fmt.Errorf("%s must be at least 1, or 0 for the brokers' default, got %d", number.flag, number.value))
		case number.value > 0 && !c.Enabled:
			faults = append(faults, fmt.Errorf("%s needs --create-topics, got %d without it", number.flag, number.value))
		}
	}
	return faults
}

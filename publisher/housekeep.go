package publisher

import (
	"errors"
	"time"
)

const (
	// housekeepingInterval is how often leaders and partition counts are asked
	// for when nothing else calls for it.
	housekeepingInterval = 30 * time.Second
	// awayInterval is how often, while no broker answers. It is shorter than
	// what makes a trouble of a fault, so that one failed look is none.
	awayInterval = 2 * time.Second
)

// keepHouse has everything looked at again and again, whether there is something
// to publish or not.
func (s *session) keepHouse() { s.after(housekeepingInterval, s.housekeep) }

// housekeep asks for the state of all topics and keeps idle partitions ours.
func (s *session) housekeep() {
	names := make([]string, 0, len(s.topics))
	for name, t := range s.topics {
		names = append(names, name)
		for _, p := range t.partitions {
			s.keepAcquired(p)
		}
	}
	s.help(func() {
		found, err := s.lookAround(names)
		s.report(func() {
			for name, m := range found {
				s.noticed(s.topics[name], m)
			}
			s.looked(err)
		})
	})
}

// lookAround asks for the leaders of topics, or, if there are none, whether a
// broker answers at all.
func (s *session) lookAround(names []string) (map[string]topicMetadata, error) {
	if len(names) == 0 {
		return nil, s.cluster.connect(s.ctx)
	}
	return s.cluster.leaders(s.ctx, names...)
}

// looked notes whether the brokers answer. Any other error is left to whoever
// needs a leader.
func (s *session) looked(err error) {
	key := troubleKey{kind: troubleBrokers}
	if !errors.Is(err, errNoBroker) {
		s.troubles.clear(key)
		s.keepHouse()
		return
	}
	if s.sayOnce("brokers") {
		s.log.Warn("no broker answers", "error", err)
	}
	s.troubles.note(key, classify(err), err, time.Now())
	s.after(awayInterval, s.housekeep)
}

package publisher

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
)

const (
	// unknownTopicGrace is how long a topic may be unknown before that is held
	// against it: a topic that has just been made takes a moment to get about.
	unknownTopicGrace = 10 * time.Second
	// lookupPause is the pause before the brokers are asked about a topic again.
	lookupPause = 500 * time.Millisecond
	// leaderPause is the least time between two questions for the leaders of a
	// topic.
	leaderPause = 100 * time.Millisecond
)

// topic returns the topic of that name, and has it looked up when it is new.
func (s *session) topic(name []byte) *topic {
	if t := s.topics[string(name)]; t != nil {
		return t
	}
	t := &topic{name: string(name)}
	s.topics[t.name] = t
	s.lookUp(t)
	return t
}

// lookUp asks all brokers about a topic, again and again until they know it.
func (s *session) lookUp(t *topic) {
	if !t.looking {
		t.looking = true
		s.ask(t)
	}
}

func (s *session) ask(t *topic) {
	s.inTurn(func() func() {
		found, err := s.cluster.topic(s.ctx, t.name)
		return func() {
			if err != nil {
				s.missing(t, err)
				return
			}
			t.looking = false
			s.found(t, found)
		}
	})
}

// inTurn has the brokers asked by ask beside the loop, no more than maxLookups
// at once, and has what ask returns run by the loop.
func (s *session) inTurn(ask func() (report func())) {
	s.help(func() {
		select {
		case s.lookups <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		report := ask()
		<-s.lookups
		s.report(report)
	})
}

// missing deals with a topic that could not be looked up.
func (s *session) missing(t *topic, err error) {
	if t.failing.IsZero() {
		t.failing = time.Now()
	}
	key := troubleKey{kind: troubleTopic, topic: t.name}
	verdict := classify(err)
	unknown := errors.Is(err, sarama.ErrUnknownTopicOrPartition)
	late := time.Since(t.failing) > unknownTopicGrace
	switch {
	case unknown && late && s.cfg.OnUnknownTopic == UnknownTopicDeadLetter:
		s.orphanWaiting(t, &Poison{Reason: ReasonUnknownTopic, Err: err})
		s.troubles.clear(key)
		s.after(lookupPause, func() { s.ask(t) })
		return
	case verdict.class == classOperator && (late || !unknown):
		if s.sayOnce("topic " + t.name) {
			s.log.Error("topic stands still", "topic", t.name, "reason", err, "remedy", verdict.remedyFor(t.name))
		}
		s.after(operatorPause, func() { s.ask(t) })
	default:
		verdict.class = classTransient
		if s.sayOnce("look up topic " + t.name) {
			s.log.Warn("topic cannot be looked up yet", "topic", t.name, "error", err)
		}
		s.after(lookupPause, func() { s.ask(t) })
	}
	s.troubles.note(key, verdict, err, t.failing)
}

// orphanWaiting sets aside what waits for a topic that will not come.
func (s *session) orphanWaiting(t *topic, why *Poison) {
	waiting := t.waiting
	t.waiting = nil
	for _, b := range waiting {
		s.release(b)
		for _, r := range b.records {
			s.orphan(r, t.name, why)
		}
	}
}

// found takes in what the brokers say about a topic.
func (s *session) found(t *topic, m topicMetadata) {
	t.failing = time.Time{}
	s.troubles.clear(troubleKey{kind: troubleTopic, topic: t.name})
	switch {
	case t.partitions == nil:
		t.id = m.id
		s.lay(t, m)
	case m.id != t.id:
		s.log.Warn("topic was deleted and made again; its events are routed anew", "topic", t.name, "partitions", int(m.partitions))
		s.recall(t)
		t.id = m.id
		s.lay(t, m)
	case int(m.partitions) > len(t.partitions):
		if t.grown == nil {
			s.log.Info("topic has more partitions; it switches over when what is under way has arrived",
				"topic", t.name, "from", len(t.partitions), "to", int(m.partitions))
		}
		t.grown = &m
	}
	s.lead(t, m)
	s.rested(t)
}

// lead takes in the leaders of a topic and lets partitions go on that lacked
// one.
func (s *session) lead(t *topic, m topicMetadata) {
	for _, p := range t.partitions {
		if leader := m.leader(p.id); leader != p.leader {
			p.leader = leader
			s.advance(p)
		}
	}
}

// findLeaders asks for the leaders of a topic, not too often.
func (s *session) findLeaders(t *topic) {
	if t.refreshing {
		return
	}
	t.refreshing = true
	s.help(func() {
		found, err := s.cluster.leaders(s.ctx, t.name)
		s.report(func() {
			s.after(leaderPause, func() {
				t.refreshing = false
				if err != nil || !t.led() {
					s.findLeaders(t)
				}
			})
			if err != nil {
				s.leaderless(t, err)
				return
			}
			s.troubles.clear(troubleKey{kind: troubleLeaders, topic: t.name})
			if m, ok := found[t.name]; ok {
				s.noticed(t, m)
			}
		})
	})
}

// leaderless says that nobody can tell who leads the partitions of a topic. A
// topic that is unknown is left to missing, which gives it time.
func (s *session) leaderless(t *topic, err error) {
	verdict := classify(err)
	switch {
	case verdict.class != classOperator || errors.Is(err, sarama.ErrUnknownTopicOrPartition):
		if s.sayOnce("leaders") {
			s.log.Warn("leaders cannot be looked up yet", "topic", t.name, "error", err)
		}
	case s.sayOnce("leaders of " + t.name):
		s.log.Error("topic stands still", "topic", t.name, "reason", err, "remedy", verdict.remedyFor(t.name))
	}
	if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		verdict.class = classTransient
	}
	s.troubles.note(troubleKey{kind: troubleLeaders, topic: t.name}, verdict, err, time.Now())
}

// noticed compares what one broker says about a topic with what is known, and
// asks all of them if it differs.
func (s *session) noticed(t *topic, m topicMetadata) {
	if t.partitions == nil {
		return
	}
	if m.id != t.id || int(m.partitions) > len(t.partitions) {
		s.lookUp(t)
		return
	}
	s.lead(t, m)
}

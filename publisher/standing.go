package publisher

import "time"

// troubled says that p has failed, since a time, in a way that is dealt with by
// trying again. The log has it at most twice a minute for a topic.
func (s *session) troubled(p *partition, what string, err error, since time.Time) {
	err = s.blame(p, classTransient, err, since)
	if s.sayOnce(p.topic.name + "\x00" + what) {
		s.log.Warn(what, "topic", p.topic.name, "partition", p.id, "broker", p.leader, "error", err)
	}
}

// stand says that p stands still until a person has acted.
func (s *session) stand(p *partition, err error) {
	if p.standing == nil || p.standing.Error() != err.Error() {
		s.log.Error("partition stands still", "topic", p.topic.name, "partition", p.id, "reason", err, "remedy", classify(err).remedyFor(p.topic.name))
	}
	p.standing = err
	s.blame(p, classify(err).class, err, time.Now())
}

// shutOut says that p stands still because its broker does not let us in. The log
// has it at most twice a minute, since it concerns all partitions there.
func (s *session) shutOut(p *partition, err error) {
	if s.sayOnce("shut out") {
		s.log.Error("a broker does not let us in", "broker", p.leader, "reason", err, "remedy", classify(err).remedyFor(p.topic.name))
	}
	s.blame(p, classOperator, err, time.Now())
}

// blame notes that p has failed, since a time, and what is done about it, and
// returns what that is put down to.
func (s *session) blame(p *partition, class class, err error, since time.Time) error {
	p.blamed = true
	err = s.explain(p, err)
	verdict := classify(err)
	verdict.class = class
	s.troubles.note(p.troubleKey(), verdict, err, since)
	return err
}

// recovered says that p goes on.
func (s *session) recovered(p *partition) {
	if p.standing != nil {
		s.log.Info("partition goes on", "topic", p.topic.name, "partition", p.id)
		p.standing = nil
	}
}

// blameless says that nothing of p is held up. It costs nothing when nothing
// was.
func (s *session) blameless(p *partition) {
	if p.blamed {
		p.blamed = false
		p.shortage = nil
		s.troubles.clear(p.troubleKey())
	}
}

func (p *partition) troubleKey() troubleKey {
	return troubleKey{kind: troublePartition, topic: p.topic.name, partition: p.id}
}

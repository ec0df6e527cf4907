package replication

// messagesOption is what has the server send logical messages.
func (c Config) messagesOption() string {
	if c.MessagePrefix == "" {
		return ""
	}
	return ", messages 'true'"
}

// noteStrays logs the first message that is not transactional: it is a mistake
// of an application, and thousands may follow.
func (s *Stream) noteStrays() {
	if s.strays == 0 && s.decoder.StrayMessages() > 0 {
		s.log.Warn("a logical message is not transactional and not published; emit it with pg_logical_emit_message(true, ...)", "slot", s.slot)
	}
	s.strays = s.decoder.StrayMessages()
}

// countStrays logs how many there were, at the end of the session.
func (s *Stream) countStrays() {
	if s.strays > 0 {
		s.log.Warn("logical messages that are not transactional were not published", "slot", s.slot, "messages", s.strays)
	}
}

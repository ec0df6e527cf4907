package main

import "github.com/outbox-cdc/outbox-cdc/publisher"

// contradictions finds what is right by itself and wrong together. What belongs
// to one side alone is found by its Validate.
func (s *settings) contradictions(cfg runConfig) {
	to := cfg.destination
	if to.OnUnknownTopic == publisher.UnknownTopicDeadLetter && to.OnPoison == publisher.PolicyHalt {
		s.fault("--on-unknown-topic dead-letter needs --on-poison dead-letter, got halt")
	}
	if tls := to.Security.TLS; tls.InsecureSkipVerify && tls.CAFile != "" {
		s.fault("--tls-insecure-skip-verify accepts any certificate, so --tls-ca must not be given with it, got %q", tls.CAFile)
	}
}

// together refuses options of a command that make no sense with another one of
// its own.
func (s *settings) together(name string, others ...string) {
	all := resolved(s.c).options
	if o := findOption(all, name); !o.IsSet() || o.value == "false" {
		return
	}
	for _, other := range others {
		if o := findOption(all, other); o.IsSet() && o.value != "false" {
			s.fault("%s has no effect with %s; leave one of them out", dashed(other), dashed(name))
		}
	}
}

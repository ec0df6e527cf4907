//go:build linux || darwin

package integration

import (
	"math/rand/v2"
	"slices"
	"time"
)

// round is what is injected at a time.
type round struct {
	faults []*fault
	// pause is the time from one fault to the next, hold how long all of them
	// last.
	pause, hold time.Duration
	random      *rand.Rand // for what else the faults choose
}

// schedule gives out rounds. All follows from the seed: the same seed gives the
// same faults for the same times in the same order.
type schedule struct {
	random *rand.Rand
	seed   uint64
	faults []*fault
	first  []*fault // those that have not come yet
	deck   []*fault // what is drawn from: as many of each as it weighs
	rounds uint64
	brief  bool
}

func newSchedule(seed uint64, brief bool, faults []*fault) *schedule {
	s := &schedule{random: rand.New(rand.NewPCG(seed, 0)), seed: seed, faults: faults, brief: brief, first: slices.Clone(faults)}
	s.shuffle(s.first)
	return s
}

// next returns the next round. At first each fault comes once: alone, with rounds
// of several in between, or, where time is short, with others.
func (s *schedule) next() round {
	s.rounds++
	r := round{random: rand.New(rand.NewPCG(s.seed, s.rounds))}
	switch {
	case len(s.first) > 0 && s.brief:
		r.faults = take(&s.first, 4)
	case len(s.first) > 0 && s.rounds%2 == 1:
		r.faults = take(&s.first, 1)
	case s.random.IntN(3) == 0:
		r.faults = s.draw(1)
	default:
		r.faults = s.draw(2 + s.random.IntN(4))
	}
	r.pause, r.hold = s.between(0, 700*time.Millisecond), s.between(100*time.Millisecond, 700*time.Millisecond)
	if s.brief {
		return r
	}
	switch s.random.IntN(12) {
	case 0: // beyond every timeout
		r.hold = s.between(8*time.Second, 14*time.Second)
	case 1, 2, 3:
		r.hold = s.between(time.Second, 4*time.Second)
	}
	return r
}

// between returns a time from one to below another.
func (s *schedule) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.random.Int64N(int64(to-from)))
}

func (s *schedule) shuffle(faults []*fault) {
	s.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
}

// draw takes up to n faults from the deck, so that in the long run each comes
// as often as it weighs.
func (s *schedule) draw(n int) []*fault {
	if len(s.deck) == 0 {
		for _, f := range s.faults {
			s.deck = append(s.deck, slices.Repeat([]*fault{f}, f.weight)...)
		}
		s.shuffle(s.deck)
	}
	return take(&s.deck, n)
}

// take takes up to n faults that work on different things.
func take(from *[]*fault, n int) []*fault {
	var chosen []*fault
	*from = slices.DeleteFunc(*from, func(f *fault) bool {
		fits := len(chosen) < n && !overlaps(f, chosen)
		if fits {
			chosen = append(chosen, f)
		}
		return fits
	})
	return chosen
}

// overlaps reports whether a fault works on what one of others works on.
func overlaps(f *fault, others []*fault) bool {
	return slices.ContainsFunc(others, func(other *fault) bool {
		return slices.ContainsFunc(other.on, func(t thing) bool { return slices.Contains(f.on, t) })
	})
}

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
	rounds uint64
	brief  bool
}

func newSchedule(seed uint64, brief bool, faults []*fault) *schedule {
	s := &schedule{random: rand.New(rand.NewPCG(seed, 0)), seed: seed, faults: faults, brief: brief, first: slices.Clone(faults)}
	s.random.Shuffle(len(s.first), func(i, j int) { s.first[i], s.first[j] = s.first[j], s.first[i] })
	return s
}

// next returns the next round. At first each fault comes once: alone, with rounds
// of several in between, or, where time is short, with others.
func (s *schedule) next() round {
	s.rounds++
	r := round{random: rand.New(rand.NewPCG(s.seed, s.rounds))}
	switch {
	case len(s.first) > 0 && s.brief:
		r.faults = s.pick(4)
	case len(s.first) > 0 && s.rounds%2 == 1:
		r.faults = s.pick(1)
	case s.random.IntN(5) < 2:
		r.faults = s.draw(1)
	default:
		r.faults = s.draw(2 + s.random.IntN(3))
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

// pick takes up to n faults that have not come yet.
func (s *schedule) pick(n int) []*fault {
	var chosen []*fault
	s.first = slices.DeleteFunc(s.first, func(f *fault) bool {
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

// draw chooses up to n faults that work on different things.
func (s *schedule) draw(n int) []*fault {
	var chosen []*fault
	for range 4 * n {
		if f := s.weighed(); !overlaps(f, chosen) {
			chosen = append(chosen, f)
		}
		if len(chosen) == n {
			break
		}
	}
	return chosen
}

// weighed chooses a fault by weight.
func (s *schedule) weighed() *fault {
	total := 0
	for _, f := range s.faults {
		total += f.weight
	}
	n := s.random.IntN(total)
	for _, f := range s.faults {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("the weights have changed")
}

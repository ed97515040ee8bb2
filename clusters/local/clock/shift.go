package clock

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Shift is how far a clock is from the real one.
type Shift struct {
	// Offset is added to the real time.
	Offset time.Duration
	// Drift is what the clock gains in each second since Base, in seconds; a
	// clock that loses has a negative one.
	Drift float64
	// Base is when the drift began.
	Base time.Time
}

// Limits of a shift: clocks of computers count nanoseconds in 63 bits, and what
// drifts faster is not a clock.
const (
	maxOffset = 20 * 365 * 24 * time.Hour
	maxDrift  = 0.9
)

// Sum returns the shift that several shifts make together.
func Sum(shifts ...Shift) Shift {
	var sum Shift
	for _, s := range shifts {
		if s.Drift != 0 && sum.Base.IsZero() {
			sum.Base = s.Base
		}
	}
	for _, s := range shifts {
		sum.Offset += s.Offset
		if s.Drift != 0 {
			sum.Drift += s.Drift
			sum.Offset += time.Duration(float64(sum.Base.Sub(s.Base)) * s.Drift)
		}
	}
	if sum.Drift == 0 {
		sum.Base = time.Time{}
	}
	return sum
}

// IsZero reports whether it is the real clock.
func (s Shift) IsZero() bool { return s.Offset == 0 && s.Drift == 0 }

// At returns how far the clock is from the real one at a real time.
func (s Shift) At(t time.Time) time.Duration {
	return s.constants().at(t)
}

func (s Shift) check() error {
	if s.Offset > maxOffset || s.Offset < -maxOffset {
		return fmt.Errorf("a clock cannot be moved by %s: at most by %s", s.Offset, maxOffset)
	}
	if math.IsNaN(s.Drift) || s.Drift > maxDrift || s.Drift < -maxDrift {
		return fmt.Errorf("a clock cannot drift by %g seconds a second: at most by %g", s.Drift, maxDrift)
	}
	if s.Drift != 0 && s.Base.IsZero() {
		return errors.New("a clock that drifts needs a start time")
	}
	return nil
}

// constants are what the code in the vDSO computes with: from the real time t it
// makes t + offset + (t - base) * rate / 2^32, all but rate in nanoseconds.
type constants struct {
	base, rate, offset int64
}

func (s Shift) constants() constants {
	c := constants{offset: int64(s.Offset)}
	if s.Drift != 0 {
		c.base, c.rate = s.Base.UnixNano(), int64(math.Round(s.Drift*(1<<32)))
	}
	return c
}

func (c constants) shift() Shift {
	s := Shift{Offset: time.Duration(c.offset)}
	if c.rate != 0 {
		s.Drift, s.Base = float64(c.rate)/(1<<32), time.Unix(0, c.base)
	}
	return s
}

// at computes as the code in the vDSO does.
func (c constants) at(t time.Time) time.Duration {
	hi, lo := mul(t.UnixNano()-c.base, c.rate)
	return time.Duration(int64(hi<<32|lo>>32) + c.offset)
}

// mul is the signed product of a and b in 128 bits.
func mul(a, b int64) (hi, lo uint64) {
	hi, lo = bits.Mul64(uint64(a), uint64(b))
	hi -= uint64(a>>63)&uint64(b) + uint64(b>>63)&uint64(a)
	return hi, lo
}

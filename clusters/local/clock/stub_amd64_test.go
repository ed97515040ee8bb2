package clock

import (
	"math"
	"math/big"
	"testing"
	"time"
)

func TestStub(t *testing.T) {
	s, err := loadStub()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(s.code))
	c := constants{base: -1, rate: math.MinInt64, offset: 42}
	code := s.with(c)
	if got, err := s.constantsOf(code); err != nil || got != c {
		t.Errorf("read back: %+v, %v", got, err)
	}
	code[0]++
	if _, err := s.constantsOf(code); err == nil {
		t.Error("other code was taken for ours")
	}
}

// FuzzStub checks that any constants survive, and that the arithmetic of shifts
// agrees with math/big's, but for what does not fit 64 bits.
func FuzzStub(f *testing.F) {
	f.Add(int64(1), int64(-1), int64(1<<62))
	s, err := loadStub()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, base, rate, offset int64) {
		c := constants{base: base, rate: rate, offset: offset}
		if got, err := s.constantsOf(s.with(c)); err != nil || got != c {
			t.Fatalf("read back: %+v, %v", got, err)
		}
		now := time.Unix(1_700_000_000, 0)
		want := new(big.Int).Mul(big.NewInt(now.UnixNano()-base), big.NewInt(rate))
		want.Rsh(want, 32).Add(want, big.NewInt(offset))
		low64 := new(big.Int).And(want, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		if got := c.at(now); got != time.Duration(low64) {
			t.Errorf("%+v at %s: %d, want %d", c, now, got, int64(low64))
		}
	})
}

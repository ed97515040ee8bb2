package clock

import (
	"bytes"
	"math"
	"os"
	"testing"
	"time"
)

func TestSum(t *testing.T) {
	base := time.Unix(1_700_000_000, 0)
	a := Shift{Offset: time.Minute}
	b := Shift{Drift: 0.001, Base: base}
	c := Shift{Offset: -time.Hour, Drift: -0.25, Base: base.Add(10 * time.Second)}
	for _, at := range []time.Duration{0, time.Second, time.Hour, 365 * 24 * time.Hour} {
		now := base.Add(at)
		want := a.At(now) + b.At(now) + c.At(now)
		if got := Sum(a, b, c).At(now); (got - want).Abs() > time.Microsecond+at/1e8 {
			t.Errorf("after %s: %s, want %s", at, got, want)
		}
	}
	if got := b.At(base.Add(1000 * time.Second)); (got - time.Second).Abs() > time.Microsecond {
		t.Errorf("1000 ppm for 1000 s: %s", got)
	}
	if !Sum().IsZero() || !Sum(b, Shift{Drift: -0.001, Base: base}).IsZero() {
		t.Error("nothing makes a shift")
	}
}

func TestRefused(t *testing.T) {
	for _, s := range []Shift{{Offset: maxOffset + 1}, {Offset: -maxOffset - 1}, {Drift: 0.1}, {Drift: math.NaN(), Base: time.Now()}, {Drift: 2, Base: time.Now()}} {
		if err := Apply(os.Getpid(), s); err == nil {
			t.Errorf("accepted: %+v", s)
		}
	}
}

// FuzzParseImage looks for images that make the parser panic, or return
// functions that are not inside.
func FuzzParseImage(f *testing.F) {
	if b, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(b[:min(len(b), 4096)])
	}
	seedVDSO(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := parseImage(b)
		if err != nil {
			return
		}
		for name, at := range img.entries {
			if at+jumpSize > uint64(len(b)) {
				t.Errorf("%s at %#x of %d bytes", name, at, len(b))
			}
		}
		if tail := min(img.free, uint64(len(b))); len(bytes.Trim(b[tail:], "\x00")) != 0 {
			t.Errorf("what follows %#x is not empty", img.free)
		}
	})
}

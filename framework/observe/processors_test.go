package observe

import "testing"

func TestProcessors(t *testing.T) {
	var p processors
	if !p.parse("cpu  100 10 50 800 30 2 3 5 7 1\ncpu0 1 2 3 4\n") || p.busy != 170 || p.all != 1000 {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"", "cpu", "cpu 1 2 3 4", "cpu 1 2 3 4 x 6", "intr 1 2 3 4 5 6"} {
		if p.parse(bad) {
			t.Errorf("%q was understood", bad)
		}
	}
}

// The machine's own numbers are understood.
func TestProcessorsHere(t *testing.T) {
	var p processors
	if _, ok := p.share(); ok {
		t.Error("a share of no time at all")
	}
	waitFor(t, "the processors' time to go on", func() bool {
		busy, ok := p.share()
		if busy < 0 || busy > 1 {
			t.Fatalf("%v of the machine was used", busy)
		}
		return ok
	})
}

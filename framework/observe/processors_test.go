package observe

import "testing"

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

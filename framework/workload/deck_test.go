package workload

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestDeck(t *testing.T) {
	d := newDeck(rand.New(rand.NewPCG(1, 2)), 1, 1, 2, 3)
	first := map[int]bool{}
	for range 20 {
		round := []int{d.deal(), d.deal(), d.deal(), d.deal()}
		first[round[0]] = true
		if sorted := slices.Sorted(slices.Values(round)); !slices.Equal(sorted, []int{1, 1, 2, 3}) {
			t.Fatalf("a round of %v", round)
		}
	}
	if len(first) != 3 {
		t.Errorf("20 rounds began with %v alone", first)
	}
}

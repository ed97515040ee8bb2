package workload

import (
	"math/rand/v2"
	"sync"
)

// deck deals cards in a random order: all of them before any repeats, so that a short run sees
// every kind as well. It is safe for concurrent use.
type deck struct {
	mu     sync.Mutex
	random *rand.Rand
	cards  []int
	left   []int
}

func newDeck(random *rand.Rand, cards ...int) *deck { return &deck{random: random, cards: cards} }

func (d *deck) deal() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) == 0 {
		d.left = append(d.left, d.cards...)
		d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	card := d.left[0]
	d.left = d.left[1:]
	return card
}

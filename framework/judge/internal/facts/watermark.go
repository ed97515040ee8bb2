package facts

import (
	"cmp"
	"slices"
	"sort"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Mark says that a version had been reached at a time, and how that is known.
type Mark[T any] struct {
	At       record.Nanos
	Revision uint64
	By       T
}

// Watermark is the highest version that had been reached by each time. It is by this that an
// answer is stale: a request that is called later must not be answered with a lower version.
type Watermark[T any] []Mark[T]

// NewWatermark returns the watermark of marks in any order. Of several that show one version
// the first counts.
func NewWatermark[T any](marks []Mark[T]) Watermark[T] {
	slices.SortStableFunc(marks, func(a, b Mark[T]) int { return cmp.Compare(a.At, b.At) })
	var w Watermark[T]
	for _, m := range marks {
		if n := len(w); n == 0 || m.Revision > w[n-1].Revision {
			w = append(w, m)
		}
	}
	return w
}

// Before returns the mark of the highest version reached before a time, nil if no version was.
func (w Watermark[T]) Before(at record.Nanos) *Mark[T] {
	if i := sort.Search(len(w), func(i int) bool { return w[i].At >= at }); i > 0 {
		return &w[i-1]
	}
	return nil
}

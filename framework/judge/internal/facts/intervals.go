package facts

import (
	"math"
	"slices"
)

const Never = math.MaxInt64 // when an operation of unknown outcome returns

// Intervals are times of operations in the order of their calls, each with the
// latest return up to it.
type Intervals []struct{ call, ret int64 }

func (l Intervals) Add(call, ret int64) Intervals {
	if n := len(l); n > 0 {
		ret = max(ret, l[n-1].ret)
	}
	return append(l, struct{ call, ret int64 }{call, ret})
}

// Within reports whether any was under way at some time between from and to.
func (l Intervals) Within(from, to int64) bool {
	n, _ := slices.BinarySearchFunc(l, to, func(i struct{ call, ret int64 }, to int64) int {
		if i.call <= to {
			return -1
		}
		return 1
	})
	return n > 0 && l[n-1].ret >= from
}

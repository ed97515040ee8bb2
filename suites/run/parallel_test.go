package run

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

func TestParallel(t *testing.T) {
	const gib = 1 << 30
	for _, tc := range []struct {
		cores  int
		memory uint64
		nodes  int
		want   int
	}{
		{1, 8 * gib, 3, 1},
		{2, 8 * gib, 3, 2},
		{2, 8 * gib, 5, 1},
		{2, 4 * gib, 3, 1},
		{2, gib / 2, 3, 1},
		{2, 0, 3, 2},
		{4, 16 * gib, 3, 4},
		{16, 16 * gib, 3, 9},
		{16, 16 * gib, 5, 5},
		{16, 64 * gib, 3, 18},
	} {
		if got := parallel(tc.cores, tc.memory, tc.nodes); got != tc.want {
			t.Errorf("%d cores, %d bytes, %d nodes: %d, want %d", tc.cores, tc.memory, tc.nodes, got, tc.want)
		}
	}
}

// TestTurns: each letter is a scenario, s if it lost verdicts to an overloaded machine.
func TestTurns(t *testing.T) {
	for _, tc := range []struct {
		parallel  int
		scenarios string
		want      int
	}{
		{2, "ok", 2},
		{2, "s", 2}, // one may be chance
		{2, "ss", 1},
		{2, "okokoks", 2},
		{2, "sokokoks", 1},
		{2, "okokokokokokokss", 2}, // it is quicker to repeat these two
		{2, "sssssss", 1},
		{3, "ss", 2},
		{3, "ssss", 1},
		{3, "ssoks", 2},
		{1, "sss", 1},
	} {
		turns := newTurns(tc.parallel)
		left := tc.parallel
		for one := range strings.SplitSeq(strings.ReplaceAll(tc.scenarios, "ok", "o"), "") {
			if !turns.take(t.Context()) {
				t.Fatal("no turn")
			}
			r := judge.Result{Scenario: "one", Judge: "harness", Verdict: judge.Pass}
			if one == "s" {
				r.Verdict = judge.Inconclusive
			}
			n, fewer := turns.give([]judge.Result{r})
			if fewer != (n < left) {
				t.Errorf("%d at a time, %s: %d after %d, fewer: %t", tc.parallel, tc.scenarios, n, left, fewer)
			}
			left = n
		}
		if left != tc.want || len(turns.free) != left {
			t.Errorf("%d at a time, %s: %d left, %d of them free; want %d", tc.parallel, tc.scenarios, left, len(turns.free), tc.want)
		}
	}
}

func TestTurnsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		turns.take(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if turns.take(ctx) {
			t.Error("two run at a time")
		}
		turns.give(nil)
		if !turns.take(t.Context()) {
			t.Error("a turn was lost")
		}
	})
}

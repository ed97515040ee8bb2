package run

import "testing"

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

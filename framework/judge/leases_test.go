package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
)

// The lease is deleted at some time: readings of its absence have no version.
func TestLeaseStates(t *testing.T) {
	type reading struct {
		rev    int // 0 for an absent lease
		holder string
	}
	for _, tt := range []struct {
		name     string
		readings []reading
		order    string
		two      bool
	}{
		{"a late reading", []reading{{1, "a"}, {3, "b"}, {2, "a"}}, "[1 2 3]", false},
		{"a late reading before it was absent", []reading{{1, "a"}, {3, "a"}, {2, "a"}, {0, ""}, {7, "b"}}, "[1 2 3  7]", false},
		{"absent through one entrance, and late through another", []reading{{2, "a"}, {0, ""}, {1, "a"}, {7, "b"}}, "[1  2 7]", false},
		{"absent twice", []reading{{0, ""}, {1, "a"}, {0, ""}}, "[ 1 ]", false},
		{"two holders", []reading{{1, "a"}, {1, "b"}}, "[1 1]", true},
		{"two holders who are no neighbours", []reading{{5, "a"}, {0, ""}, {5, "b"}}, "[5  5]", true},
		{"two holders, one of them read late", []reading{{5, "a"}, {0, ""}, {4, "a"}, {5, "b"}}, "[4  5 5]", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory()
			for i, r := range tt.readings {
				s.at(float64(i)).lease("kube-scheduler", r.holder, r.rev, 0)
				if r.rev == 0 {
					s.run.Leases[i].V.Revision = ""
				}
			}
			states := facts.LeaseStates(s.run, "kube-scheduler", 0, sec(60))
			var order []string
			for _, l := range states {
				order = append(order, l.V.Revision)
			}
			if fmt.Sprint(order) != tt.order || (facts.TwoHolders(states) != nil) != tt.two {
				t.Errorf("order %v (want %s), two holders %v (want %t)", order, tt.order, facts.TwoHolders(states), tt.two)
			}
		})
	}
}
